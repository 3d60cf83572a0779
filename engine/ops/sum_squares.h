// Sum of squares of one tensor, in f32 (f64 inside): the local part of the global gradient norm.
// An infinity or NaN in x comes out as one, which is how fp16 overflow is seen.
#pragma once
#include "engine/ops/arguments.h"
#include "engine/ops/ranges.h"

namespace mbench::ops {

struct SumSquares {
  static constexpr std::string_view name = "sum_squares";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor x;
  Tensor sum;               // [1] f32; accumulated into: sum += sum(x^2)
  ElementRanges only = {};  // the elements that count; without ranges: all
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "sum", sum, {1});
    need_dtype(name, "sum", sum, DType::f32);
    need_ranges(name, "only", only, x.numel());
  }
  Cost cost() const {
    const auto n = static_cast<double>(only.empty() ? x.numel() : elements_of(only));
    return {2 * n, n * static_cast<double>(size_of(x.dtype()))};
  }
};

}  // namespace mbench::ops
