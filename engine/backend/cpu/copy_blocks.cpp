#include "engine/ops/copy_blocks.h"

#include <cstring>

#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::CopyBlocks& op) {
  const auto size = static_cast<std::int64_t>(size_of(op.from.data.dtype()));
  const std::int64_t rows = op.from.rows;
  const auto row_of = [&](const ops::Matrix& m, std::int64_t i) {
    return m.data.data() + (m.offset + i / rows * m.batch_stride + i % rows * m.ld) * size;
  };
  parallel_rows(op.batch * rows, op.from.cols, [&](std::int64_t i) {
    std::memcpy(row_of(op.to, i), row_of(op.from, i), static_cast<std::size_t>(op.from.cols * size));
  });
}

}  // namespace mbench::cpu
