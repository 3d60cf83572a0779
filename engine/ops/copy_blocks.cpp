#include "engine/ops/copy_blocks.h"

namespace mbench::ops {
namespace {

void need_inside(std::string_view argument, const Matrix& m, std::int64_t batch) {
  need_float(CopyBlocks::name, argument, m.data);
  mbench::check(!m.transposed && m.ld >= m.cols, CopyBlocks::name,
                "{}, got rows {} elements apart{}, need at least their {} columns", argument, m.ld,
                m.transposed ? ", transposed" : "", m.cols);
  const std::int64_t end = m.offset + (batch - 1) * m.batch_stride + (m.rows - 1) * m.ld + m.cols;
  mbench::check(end <= m.data.numel(), CopyBlocks::name,
                "{} reaches past its tensor, got end {}, need at most {}", argument, end, m.data.numel());
}

}  // namespace

void CopyBlocks::check() const {
  need_inside("from", from, batch);
  need_inside("to", to, batch);
  need_dtype(name, "to", to.data, from.data.dtype());
  mbench::check(from.rows == to.rows && from.cols == to.cols, name, "blocks, got {} x {} and {} x {}",
                from.rows, from.cols, to.rows, to.cols);
  mbench::check(!overlap(from.data, to.data), name, "from and to have memory in common, need two tensors");
}

}  // namespace mbench::ops
