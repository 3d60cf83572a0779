#include "engine/ops/swiglu.h"

#include <algorithm>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// (gate, up) of n outputs as two rows of floats, the bias added.
template <class T>
void load_pairs(const T* x, const Tensor& bias, std::int64_t col, std::int64_t n, float* gate, float* up) {
  float xb[2 * kTile], bb[2 * kTile];
  const float* pairs = load(x, xb, 2 * n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] = pairs[2 * i];
    up[i] = pairs[2 * i + 1];
  }
  if (!bias) return;
  const float* more = load(bias.as<T>() + 2 * col, bb, 2 * n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    gate[i] += more[2 * i];
    up[i] += more[2 * i + 1];
  }
}

// The same of gates and ups that may lie apart; `at`: of the first output.
template <class T>
void load_gates(const T* x, const T* apart, const Tensor& bias, std::int64_t at, std::int64_t col, std::int64_t n, float* gate,
                float* up) {
  if (apart == nullptr) return load_pairs(x + 2 * at, bias, col, n, gate, up);
  const float *gates = load(x + at, gate, n), *ups = load(apart + at, up, n);
  if (gates != gate) std::copy_n(gates, n, gate);
  if (ups != up) std::copy_n(ups, n, up);
}

template <class T>
const T* up_of(const Tensor& up) {
  return up ? up.as<T>() : nullptr;
}

// The gradient with weights: that of a row's weight is the sum over the row, so rows are whole.
template <class T>
void weighted_gradient(const ops::SwiGluGrad& op) {
  const std::int64_t cols = op.dy.shape().cols();
  parallel_rows(op.dy.shape().rows(), cols, [&](std::int64_t row) {
    const float weight = op.weights.as<float>()[row];
    float product = 0;
    for (std::int64_t col = 0; col < cols; col += kTile) {
      const std::int64_t n = std::min(kTile, cols - col), at = row * cols + col;
      float gates[kTile], ups[kTile], db[kTile], xb[2 * kTile];
      load_pairs(static_cast<const T*>(op.x.as<T>()) + 2 * at, op.bias, col, n, gates, ups);
      const float *gate = gates, *up = ups, *dy = load(static_cast<const T*>(op.dy.as<T>()) + at, db, n);
      product += sum_of(n, [=](std::int64_t i) { return dy[i] * up[i] * gate[i] / (1.0f + exp_f32(-gate[i])); });
      float* dx = target(op.dx.as<T>() + 2 * at, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float s = 1.0f / (1.0f + exp_f32(-gate[i])), d = weight * dy[i];
        dx[2 * i] = d * up[i] * s * (1.0f + gate[i] * (1.0f - s));
        dx[2 * i + 1] = d * gate[i] * s;
      }
      store(dx, op.dx.as<T>() + 2 * at, 2 * n);
    }
    op.dweights.as<float>()[row] = product;
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::SwiGlu& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.y.shape().cols();
    parallel_row_tiles(op.y.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float gate[kTile], up[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      load_gates<T>(op.x.as<T>(), up_of<T>(op.up), op.bias, at, col, n, gate, up);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + exp_f32(-gate[i])) * up[i];
      if (op.weights) {
        const float weight = op.weights.as<float>()[row];
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] *= weight;
      }
      store(y, op.y.as<T>() + at, n);
    });
  });
}

// With s = 1 / (1 + e^-gate): dup = dy gate s, dgate = dy up s (1 + gate (1 - s)).
template <>
void compute(CpuOps&, const ops::SwiGluGrad& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    if (op.weights) return weighted_gradient<T>(op);
    const std::int64_t cols = op.dy.shape().cols();
    parallel_row_tiles(op.dy.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float gate[kTile], up[kTile], db[kTile], xb[2 * kTile];
      const std::int64_t at = row * cols + col;
      load_gates<T>(op.x.as<T>(), up_of<T>(op.up), op.bias, at, col, n, gate, up);
      const float* dy = load(op.dy.as<T>() + at, db, n);
      float* dx = target(op.dx.as<T>() + 2 * at, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float s = 1.0f / (1.0f + exp_f32(-gate[i]));
        dx[2 * i] = dy[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
        dx[2 * i + 1] = dy[i] * gate[i] * s;
      }
      store(dx, op.dx.as<T>() + 2 * at, 2 * n);
    });
  });
}

}  // namespace mbench::cpu
