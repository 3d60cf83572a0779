#include "engine/ops/bias_gelu.h"

#include "engine/backend/cpu/bias_tile.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/gelu_math.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
template <>
void compute(CpuOps& cpu, const ops::BiasGelu& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], yb[kTile], sb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      const float* bias = bias_tile<T>(op.bias, col, n, bb);
      float* y = target(op.y.as<T>() + at, yb);
      if (op.sum) {
        float* sum = target(op.sum.as<T>() + at, sb);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const float z = x[i] + bias[i];
          sum[i] = z;
          y[i] = gelu(z);
        }
        store(sum, op.sum.as<T>() + at, n);
      } else {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] = gelu(x[i] + bias[i]);
      }
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::BiasGeluGrad& op) {
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
      for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * gelu_slope(x[i] + bias[i]);
      store(dx, op.dx.as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
