#include "engine/ops/copy_blocks.h"

namespace mbench::ops {

void CopyBlocks::check() const {
  need_inside(name, "from", from, batch, true);
  need_inside(name, "to", to, batch, true);
  need_dtype(name, "to", to.data, from.data.dtype());
  mbench::check(from.rows == to.rows && from.cols == to.cols, name, "blocks, got {} x {} and {} x {}", from.rows,
                from.cols, to.rows, to.cols);
  mbench::check(!overlap(from.data, to.data), name, "from and to have memory in common, need two tensors");
}

}  // namespace mbench::ops
