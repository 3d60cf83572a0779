#include "engine/ops/sum_blocks.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::SumBlocks& op) {
  const ops::Matrix &from = op.from, &to = op.to;
  with_type(from.data.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles(from.rows, from.cols, [&](std::int64_t r, std::int64_t column, std::int64_t n) {
      float sum[kTile] = {}, buffer[kTile];
      const T* at = from.data.as<T>() + from.offset + r * from.ld + column;
      for (std::int64_t b = 0; b < op.batch; ++b) {
        const float* x = load(at + b * from.batch_stride, buffer, n);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
      }
      from_floats(sum, to.data.as<T>() + to.offset + r * to.ld + column, n);
    });
  });
}

}  // namespace mbench::cpu
