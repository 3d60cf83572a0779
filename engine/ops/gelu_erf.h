// y = z Phi(z), z = x + bias: GELU as published (Hendrycks and Gimpel 2016) and in Hugging Face's BERT. Phi is the
// normal distribution's function, (1 + erf(z / sqrt 2)) / 2. The tanh form is bias_gelu.h.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct GeluErf {
  static constexpr std::string_view name = "gelu_erf";
  Tensor x;     // [..., n]
  Tensor bias;  // [n], optional
  Tensor y;     // like x
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {12.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct GeluErfGrad {  // dx = dy (Phi(z) + z Phi'(z)); the bias's gradient is BiasGrad of dx
  static constexpr std::string_view name = "gelu_erf_grad";
  Tensor dy, x, bias;
  Tensor dx;  // like x; may be dy itself
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const { return {20.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
