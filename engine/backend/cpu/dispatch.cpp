#include "engine/ops/dispatch.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Dispatch& op) {
  const std::int64_t n = op.x.shape().cols(), end = op.x.shape().rows() * op.k;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(op.pairs.numel(), n, [&](std::int64_t row) {
      const std::int64_t pair = op.pairs.as<std::int64_t>()[row];
      T* y = op.y.as<T>() + row * n;
      if (pair < 0 || pair >= end) {
        std::fill(y, y + n, T{});
        return;
      }
      const T* x = op.x.as<T>() + pair / op.k * n;
      std::copy(x, x + n, y);
    });
  });
}

template <>
void compute(CpuOps&, const ops::DispatchGrad& op) {
  const std::int64_t n = op.dx.shape().cols(), k = op.rows.shape().cols(), end = op.dy.shape().rows();
  with_type(op.dx.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles(op.dx.shape().rows(), n, [&](std::int64_t token, std::int64_t col, std::int64_t count) {
      float sum[kTile] = {}, buffer[kTile];
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t row = op.rows.as<std::int64_t>()[token * k + j];
        if (row < 0 || row >= end) continue;
        const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + row * n + col, buffer, count);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) sum[i] += dy[i];
      }
      from_floats(sum, op.dx.as<T>() + token * n + col, count);
    });
  });
}

}  // namespace mbench::cpu
