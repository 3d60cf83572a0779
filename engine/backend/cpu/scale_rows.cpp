#include "engine/ops/scale_rows.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::ScaleRows& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float weight = op.weights.as<float>()[row];
      const float* x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, n);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = weight * x[i];
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::ScaleRowsGrad& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_rows(op.x.shape().rows(), cols, [&](std::int64_t row) {
      const float weight = op.weights.as<float>()[row];
      float gemm = 0;
      for (std::int64_t col = 0; col < cols; col += kTile) {
        const std::int64_t n = std::min(kTile, cols - col), at = row * cols + col;
        float xb[kTile], db[kTile], out[kTile];
        const float* x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, n);
        const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + at, db, n);
        gemm += sum_of(n, [=](std::int64_t i) { return dy[i] * x[i]; });  // before dx, which may be dy
        float* dx = target(op.dx.as<T>() + at, out);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) dx[i] = weight * dy[i];
        store(dx, op.dx.as<T>() + at, n);
      }
      op.dweights.as<float>()[row] = gemm;
    });
  });
}

}  // namespace mbench::cpu
