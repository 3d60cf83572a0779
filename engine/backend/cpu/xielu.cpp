#include "engine/ops/xielu.h"

#include <cmath>

#include "engine/backend/cpu/bias_activation.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

float scalar(const Tensor& t) {
  float value = 0;
  with_type(t.dtype(), [&](auto type) {
    float buffer[1];
    value = *load(static_cast<const decltype(type)*>(t.as<decltype(type)>()), buffer, 1);
  });
  return value;
}

float softplus(float a) {
  return a > ops::kSoftplusLinear ? a : std::log1p(std::exp(a));
}

// d softplus(a) / da
float softplus_slope(float a) {
  return a > ops::kSoftplusLinear ? 1.0f : 1.0f / (1.0f + std::exp(-a));
}

// expm1(min(z, eps)) - z: what alpha_n multiplies.
[[gnu::always_inline]] inline float below_zero(float z) {
  return expm1_f32(z < ops::kXIeluEps ? z : ops::kXIeluEps) - z;
}

void add_to(const Tensor& to, double sum) {
  with_type(to.dtype(), [&](auto type) {
    using T = decltype(type);
    float buffer[1];
    float* value = target(to.as<T>(), buffer);
    *value = static_cast<float>(static_cast<double>(scalar(to)) + sum);
    store(value, to.as<T>(), 1);
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::XIelu& op) {
  const float p = softplus(scalar(op.alpha_p)), n = ops::kXIeluBeta + softplus(scalar(op.alpha_n));
  activate(op, [p, n](float z) { return (z > 0.0f ? p * z * z : n * below_zero(z)) + ops::kXIeluBeta * z; });
}

// Sums of a tile of a row are taken in lanes, and added tile by tile: independent of the number of threads.
template <>
void compute(CpuOps& cpu, const ops::XIeluGrad& op) {
  const float p = softplus(scalar(op.alpha_p)), n = ops::kXIeluBeta + softplus(scalar(op.alpha_n));
  const std::int64_t rows = op.x.shape().rows(), cols = op.x.shape().cols(), tiles = (cols + kTile - 1) / kTile;
  float* sums = cpu.scratch.floats(2 * rows * tiles);  // [rows, tiles, (alpha_p, alpha_n)]
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles(rows, cols, [&](std::int64_t row, std::int64_t col, std::int64_t count) {
      float xb[kTile], bb[kTile], db[kTile], yb[kTile], zb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, count);
      const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + at, db, count);
      const float* bias = bias_tile<T>(op.bias, col, count, bb);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) zb[i] = x[i] + bias[i];
      float* sum = sums + 2 * (row * tiles + col / kTile);
      sum[0] = sum_of(count, [&](std::int64_t i) { return zb[i] > 0.0f ? dy[i] * zb[i] * zb[i] : 0.0f; });
      sum[1] = sum_of(count, [&](std::int64_t i) { return zb[i] > 0.0f ? 0.0f : dy[i] * below_zero(zb[i]); });
      float* dx = target(op.dx.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        const float z = zb[i], e = expm1_f32(z < ops::kXIeluEps ? z : ops::kXIeluEps);
        dx[i] = dy[i] * ((z > 0.0f ? 2.0f * p * z : n * e) + ops::kXIeluBeta);
      }
      store(dx, op.dx.as<T>() + at, count);
    });
  });
  if (!op.dalpha_p) return;
  double of_p = 0, of_n = 0;
  for (std::int64_t i = 0; i < rows * tiles; ++i) of_p += sums[2 * i], of_n += sums[2 * i + 1];
  add_to(op.dalpha_p, of_p * softplus_slope(scalar(op.alpha_p)));
  add_to(op.dalpha_n, of_n * softplus_slope(scalar(op.alpha_n)));
}

}  // namespace mbench::cpu
