#include "engine/nn/layers/activation.h"

#include "engine/nn/layers/norm.h"
#include "engine/ops/activation.h"
#include "engine/ops/bias_gelu.h"
#include "engine/ops/copy.h"
#include "engine/ops/gelu_erf.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_columns.h"
#include "engine/ops/squared_relu.h"
#include "engine/ops/xielu.h"

namespace mbench::nn {

namespace {

ops::ActivationKind plain_kind(Activation kind) {
  check(kind == Activation::relu || kind == Activation::silu, "activation", "no op for {}", name_of(kind));
  return kind == Activation::relu ? ops::ActivationKind::relu : ops::ActivationKind::silu;
}

}  // namespace

ops::Gate gate_of(Activation kind) {
  switch (kind) {
    case Activation::swiglu:
      return ops::Gate::silu;
    case Activation::geglu:
      return ops::Gate::gelu;
    case Activation::geglu_erf:
      return ops::Gate::gelu_erf;
    case Activation::reglu:
      return ops::Gate::relu;
    case Activation::clamped_swiglu:
      return ops::Gate::clamped;
    default:
      fail(ErrorKind::internal, "activation", "{} has no gate", name_of(kind));
  }
}

Tensor activate(Context& c, Activation kind, const Tensor& x, const Tensor& bias) {
  Shape shape = x.shape();
  const bool gated = is_gated(kind);
  if (gated) shape[-1] /= 2;
  const char* what = gated                              ? "swiglu output"
                     : kind == Activation::squared_relu ? "squared ReLU output"
                     : kind == Activation::relu         ? "ReLU output"
                     : kind == Activation::silu         ? "SiLU output"
                                                        : "gelu output";
  const Tensor y = c.activation(shape, what);
  if (gated)
    run(c.device, ops::SwiGlu{x, bias, y, Tensor(), Tensor(), gate_of(kind)});
  else if (kind == Activation::gelu)
    run(c.device, ops::BiasGelu{x, bias, y});
  else if (kind == Activation::gelu_erf)
    run(c.device, ops::GeluErf{x, bias, y});
  else if (kind == Activation::squared_relu)
    run(c.device, ops::SquaredRelu{x, bias, y});
  else
    run(c.device, ops::Activate{plain_kind(kind), x, bias, y});
  return y;
}

Tensor activation_gradient(Context& c, Activation kind, const Tensor& dy, const Tensor& x, const Tensor& bias) {
  if (is_gated(kind)) {  // pairs for each output: the gradient takes the input's place
    run(c.device, ops::SwiGluGrad{dy, x, bias, x, Tensor(), Tensor(), Tensor(), gate_of(kind)});
    return x;
  }
  if (kind == Activation::gelu)
    run(c.device, ops::BiasGeluGrad{dy, x, bias, dy});
  else if (kind == Activation::gelu_erf)
    run(c.device, ops::GeluErfGrad{dy, x, bias, dy});
  else if (kind == Activation::squared_relu)
    run(c.device, ops::SquaredReluGrad{dy, x, bias, dy});
  else
    run(c.device, ops::ActivateGrad{plain_kind(kind), dy, x, bias, dy});
  return dy;
}

void ActivationFunction::multiply(Context& c, const Tensor& pairs) const {
  if (factor_ == 1) return;
  run(c.device, ops::ScaleColumns{pairs, pairs, {{1, 2, 2, 2, 2}, {factor_, 1, 1, 1, 1}}});
}

Tensor ActivationFunction::forward(Context& c, const Linear& first, const Tensor& x, Linear::Saved& first_saved,
                                   Saved& saved) const {
  if (kind_ == Activation::gelu && first.fuses_output(c))
    return first.forward(c, x, first_saved, {.bias = static_cast<bool>(first.bias()), .gelu_input = &saved.x});
  saved = {first.forward(c, x, first_saved), true, {}};
  multiply(c, saved.x);
  if (kind_ == Activation::xielu) {
    const Tensor y = c.activation(saved.x.shape(), "xIELU output");
    run(c.device, ops::XIelu{saved.x, first.bias(), alphas_.p->value, alphas_.n->value, y});
    return y;
  }
  const Tensor y = activate(c, kind_, saved.x, first.bias());
  if (is_gated(kind_) && c.keeps().unfused_swiglu) {
    saved.active = c.activation(y.shape(), "activated gates");
    run(c.device, ops::Copy{y, saved.active});
  }
  return y;
}

Tensor ActivationFunction::backward(Context& c, const Linear& first, const Linear& second, Tensor dy,
                                    Linear::Saved& second_saved, Saved& saved) const {
  if (kind_ == Activation::gelu && !saved.separate_bias && second.fuses_input_gradient(c))
    return second.backward(c, std::move(dy), second_saved, std::exchange(saved.x, Tensor()));
  const Tensor gradient = second.backward(c, std::move(dy), second_saved);
  return backward(c, first, gradient, saved);
}

Tensor ActivationFunction::backward(Context& c, const Linear& first, const Tensor& gradient, Saved& kept) const {
  const Saved saved = std::exchange(kept, {});
  if (kind_ == Activation::xielu) {
    run(c.device, ops::XIeluGrad{gradient, saved.x, saved.separate_bias ? first.bias() : Tensor(), alphas_.p->value,
                                 alphas_.n->value, gradient, gradient_of(alphas_.p), gradient_of(alphas_.n)});
    return gradient;
  }
  const Tensor dx = activation_gradient(c, kind_, gradient, saved.x, saved.separate_bias ? first.bias() : Tensor());
  multiply(c, dx);
  return dx;
}

}  // namespace mbench::nn
