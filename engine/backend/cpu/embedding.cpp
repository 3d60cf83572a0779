#include "engine/ops/embedding.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Embedding& op) {
  const std::int64_t cols = op.table.shape().cols(), local = op.table.shape().rows();
  with_type(op.table.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles(op.ids.numel(), cols, [&](std::int64_t i, std::int64_t col, std::int64_t n) {
      const std::int64_t row = op.ids.as<std::int64_t>()[i] - op.first_row;
      T* y = op.y.as<T>() + i * cols + col;
      if (row < 0 || row >= local) {
        if (!op.accumulate) std::fill(y, y + n, T{});
        return;
      }
      const T* from = op.table.as<T>() + row * cols + col;
      if (!op.accumulate) {
        std::copy(from, from + n, y);
        return;
      }
      float ab[kTile], bb[kTile], out[kTile];
      const float *a = load(static_cast<const T*>(y), ab, n), *b = load(from, bb, n);
      float* sum = target(y, out);
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) sum[j] = a[j] + b[j];
      store(sum, y, n);
    });
  });
}

// Threads share out the columns, so every element of dtable is added to in the order of the ids.
template <>
void compute(CpuOps& cpu, const ops::EmbeddingGrad& op) {
  const std::int64_t cols = op.dtable.shape().cols(), local = op.dtable.shape().rows(), count = op.ids.numel();
  constexpr std::int64_t kWidth = 128;
  with_type(op.dy.dtype(), [&](auto dy_type) {
    with_type(op.dtable.dtype(), [&](auto table_type) {
      using TY = decltype(dy_type);
      using TT = decltype(table_type);
#pragma omp parallel for schedule(static) if (count * cols > kParallelFrom)
      for (std::int64_t col = 0; col < cols; col += kWidth) {
        const std::int64_t n = std::min(kWidth, cols - col);
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t row = op.ids.as<std::int64_t>()[i] - op.first_row;
          if (row < 0 || row >= local) continue;
          float ab[kWidth], bb[kWidth], out[kWidth];
          TT* to = op.dtable.as<TT>() + row * cols + col;
          const float* a = load(static_cast<const TT*>(to), ab, n);
          const float* b = load(static_cast<const TY*>(op.dy.as<TY>()) + i * cols + col, bb, n);
          float* sum = target(to, out);
#pragma omp simd
          for (std::int64_t j = 0; j < n; ++j) sum[j] = a[j] + b[j];
          store(sum, to, n);
        }
      }
    });
  });
}

}  // namespace mbench::cpu
