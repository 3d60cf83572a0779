// Activations of x + bias by element, and their gradients; the bias may be missing.
#pragma once
#include "engine/backend/cpu/bias_tile.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

// y = f(x + bias).
template <class Op, class F>
void activate(const Op& op, F&& f) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.template as<T>() + at, xb, n);
      const float* bias = bias_tile<T>(op.bias, col, n, bb);
      float* y = target(op.y.template as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i] + bias[i]);
      store(y, op.y.template as<T>() + at, n);
    });
  });
}

// dx = dy * slope(x + bias).
template <class Op, class Slope>
void activate_grad(const Op& op, Slope&& slope) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], db[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.template as<T>() + at, xb, n);
      const float* dy = load(op.dy.template as<T>() + at, db, n);
      const float* bias = bias_tile<T>(op.bias, col, n, bb);
      float* dx = target(op.dx.template as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * slope(x[i] + bias[i]);
      store(dx, op.dx.template as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
