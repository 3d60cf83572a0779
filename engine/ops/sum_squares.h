// Sum of squares of one tensor, in f32 (f64 inside): the local part of the global gradient norm.
// An infinity or NaN in x comes out as one, which is how fp16 overflow is seen.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct SumSquares {
  static constexpr std::string_view name = "sum_squares";
  Tensor x;
  Tensor sum;  // [1] f32; accumulated into: sum += sum(x^2)
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "sum", sum, {1});
    need_dtype(name, "sum", sum, DType::f32);
  }
  Cost cost() const { return {2.0 * static_cast<double>(x.numel()), bytes_of(x)}; }
};

}  // namespace mbench::ops
