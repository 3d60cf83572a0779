// Quantises a part of a matrix [rows, cols] with one scale for each 128 x 128 elements. A rank has only that part: a
// run of elements in order, which may begin and end within a row. Maxima and scales of blocks are laid out as in
// QuantiseBlocks.
//
//   BlockMaxima   the largest |x| of each block, of the elements here
//   QuantisePart  codes of the elements here, once the blocks' scales are those of the whole matrix
#pragma once
#include "engine/ops/quantise.h"

namespace mbench::ops {

// Throws unless elements [first, first + n) are in the matrix and `figures` has a value for each of its blocks.
inline void need_part(std::string_view op, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t n,
                      const Tensor& figures) {
  check(first >= 0 && n >= 0 && first + n <= rows * cols, op, "part, got elements {} to {}, need some of {} x {}",
        first, first + n, rows, cols);
  need_f32(op, "figures of blocks", figures, QuantiseBlocks::scales_of(rows, cols, Fp8Blocks::squares));
}

struct BlockMaxima {
  static constexpr std::string_view name = "block_maxima";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;  // [n]
  std::int64_t rows = 0, cols = 0, first = 0;
  Tensor amax;  // f32: the largest of what it held and |x|; NaN is ignored
  void check() const {
    need_float(name, "x", x);
    need_part(name, rows, cols, first, x.numel(), amax);
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x)}; }
};

struct QuantisePart {
  static constexpr std::string_view name = "quantise_part";
  static constexpr TimePart part = TimePart::elementwise;
  Tensor x;  // [n]
  std::int64_t rows = 0, cols = 0, first = 0;
  Tensor scale;
  Tensor y;  // [n] e4m3
  void check() const {
    need_float(name, "x", x);
    need_part(name, rows, cols, first, x.numel(), scale);
    need_shape(name, "y", y, x.shape());
    need_dtype(name, "y", y, DType::e4m3);
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

}  // namespace mbench::ops
