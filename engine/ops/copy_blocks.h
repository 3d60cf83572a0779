// Copies a batch of blocks, matrices of rows x cols, from one strided place to another. So parts that lie one after the
// other are joined along an inner dim, or separated.
#pragma once
#include "engine/ops/matrix.h"

namespace mbench::ops {

struct CopyBlocks {
  static constexpr std::string_view name = "copy_blocks";
  static constexpr TimePart part = TimePart::copies;
  Matrix from,
      to;  // same rows, cols and dtype, floating-point or of 8 bits; not transposed; no memory in common
  std::int64_t batch = 1;
  void check() const;
  Cost cost() const {
    return {0,
            2 * static_cast<double>(batch * from.rows * from.cols) * static_cast<double>(size_of(from.data.dtype()))};
  }
};

}  // namespace mbench::ops
