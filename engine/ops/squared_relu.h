// y = max(0, x + bias)^2 (So et al. 2021, "Primer"): the activation of Nemotron-4.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct SquaredRelu {
  static constexpr std::string_view name = "squared_relu";
  Tensor x;     // [..., n]
  Tensor bias;  // [n], optional
  Tensor y;     // like x
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {3.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct SquaredReluGrad {  // dx = dy * 2 max(0, x + bias); the bias's gradient is BiasGrad of dx
  static constexpr std::string_view name = "squared_relu_grad";
  Tensor dy, x, bias;
  Tensor dx;  // like x; may be dy itself
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const { return {4.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
