// y = gelu(x + bias), the tanh form of GPT-2 and Megatron:
// gelu(z) = 0.5 z (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct BiasGelu {
  static constexpr std::string_view name = "bias_gelu";
  static constexpr double kFlops = 12;  // per element of x
  Tensor x;                             // [..., n]
  Tensor bias;                          // [n], optional
  Tensor y;                             // like x
  Tensor sum{};                         // like x, optional: gets x + bias; may be x itself
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "y", y, x);
    if (sum) need_same(name, "sum", sum, x);
  }
  Cost cost() const { return {kFlops * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y) + bytes_of(sum)}; }
};

struct BiasGeluGrad {  // dx = dy * gelu'(x + bias); the bias's gradient is BiasGrad of dx
  static constexpr std::string_view name = "bias_gelu_grad";
  static constexpr double kFlops = 20;  // per element of x
  Tensor dy, x, bias;
  Tensor dx;  // like x; may be dy itself
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const { return {kFlops * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
