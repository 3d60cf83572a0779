// y = 1 / (1 + e^-x) in f32, and its gradient, dx = dy y (1 - y): the gate of a shared expert, one number of each token.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Sigmoid {
  static constexpr std::string_view name = "sigmoid";
  Tensor x;  // any floating-point type
  Tensor y;  // f32, of x's shape
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "y", y, x.shape());
    need_dtype(name, "y", y, DType::f32);
  }
  Cost cost() const { return {4.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct SigmoidGrad {
  static constexpr std::string_view name = "sigmoid_grad";
  Tensor dy, y;  // f32
  Tensor dx;     // of y's shape, any floating-point type
  void check() const {
    need_dtype(name, "y", y, DType::f32);
    need_same(name, "dy", dy, y);
    need_float(name, "dx", dx);
    need_shape(name, "dx", dx, y.shape());
  }
  Cost cost() const { return {3.0 * static_cast<double>(y.numel()), bytes_of(dy) + bytes_of(y) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
