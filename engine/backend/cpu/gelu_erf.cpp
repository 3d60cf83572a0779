#include "engine/ops/gelu_erf.h"

#include "engine/backend/cpu/bias_tile.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// The normal distribution's function and e^(-z^2 / 2), without branches: Abramowitz and Stegun 7.1.26 gives erfc(x) for
// x >= 0 as a polynomial in 1 / (1 + 0.3275911 x) times e^(-x^2), within 1.5e-7.
struct Normal {
  float phi, bell;
};
inline Normal normal(float z) {
  const float x = std::fabs(z) * 0.70710678f;
  const float t = 1.0f / (1.0f + 0.3275911f * x);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float bell = exp_f32(-x * x), half_tail = 0.5f * p * t * bell;
  return {z < 0.0f ? half_tail : 1.0f - half_tail, bell};
}

constexpr float kInverseRootTwoPi = 0.39894228f;

}  // namespace

template <>
void compute(CpuOps&, const ops::GeluErf& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      const float* bias = bias_tile<T>(op.bias, col, n, bb);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float z = x[i] + bias[i];
        y[i] = z * normal(z).phi;
      }
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::GeluErfGrad& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], db[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      const float* dy = load(op.dy.as<T>() + at, db, n);
      const float* bias = bias_tile<T>(op.bias, col, n, bb);
      float* dx = target(op.dx.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float z = x[i] + bias[i];
        const Normal at_z = normal(z);
        dx[i] = dy[i] * (at_z.phi + z * at_z.bell * kInverseRootTwoPi);
      }
      store(dx, op.dx.as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
