// y = f(x + bias) of the activations that are one op in every framework: ReLU, and SiLU (Elfwing et al. 2018), z / (1 + e^-z).
// GELU, squared ReLU and gated ones have ops of their own.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

enum class ActivationKind { relu, silu };

struct Activate {
  static constexpr std::string_view name = "activation";
  ActivationKind kind = ActivationKind::relu;
  Tensor x;     // [..., n]
  Tensor bias;  // [n], optional
  Tensor y;     // like x
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {4.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct ActivateGrad {  // dx = dy f'(x + bias); the bias's gradient is BiasGrad of dx
  static constexpr std::string_view name = "activation_grad";
  ActivationKind kind = ActivationKind::relu;
  Tensor dy, x, bias;
  Tensor dx;  // like x; may be dy itself
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const { return {6.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
