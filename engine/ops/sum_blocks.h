// The sum of a batch of blocks: matrices of rows x cols at strides of their own. It is the gradient of a block that
// CopyBlocks wrote to several places. Added in f32 in the order of the batch, rounded once.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

struct SumBlocks {
  static constexpr std::string_view name = "sum_blocks";
  Matrix from;
  Matrix to;  // one block of the same rows, cols and dtype, overwritten; no memory in common with `from`
  std::int64_t batch = 1;
  void check() const {
    need_inside(name, "from", from, batch);
    need_inside(name, "to", to, 1);
    need_dtype(name, "to", to.data, from.data.dtype());
    mbench::check(from.rows == to.rows && from.cols == to.cols, name, "blocks, got {} x {} into {} x {}", from.rows,
                  from.cols, to.rows, to.cols);
    mbench::check(!overlap(from.data, to.data), name, "from and to have memory in common, need two tensors");
  }
  Cost cost() const {
    const double block = static_cast<double>(from.rows * from.cols), n = static_cast<double>(batch);
    return {n * block, (n + 1) * block * static_cast<double>(size_of(from.data.dtype()))};
  }
};

}  // namespace mbench::ops
