#include "engine/nn/activation.h"

#include "engine/ops/ops.h"

namespace mbench {

ActivationFunction::ActivationFunction(Activation kind) {
  if (kind != Activation::gelu)
    fail(ErrorKind::unsupported, "activation", "{} is not built into this binary, need gelu", name_of(kind));
}

Tensor ActivationFunction::forward(Context& c, const Linear& first, const Tensor& x,
                                   Linear::Saved& first_saved, Saved& saved) const {
  if (first.fuses_output(c))
    return first.forward(c, x, first_saved,
                         {.bias = static_cast<bool>(first.bias()), .gelu_input = &saved.x});
  saved = {first.forward(c, x, first_saved), true};
  const Tensor y = c.activation(saved.x.shape(), "gelu output");
  run(c.device, ops::BiasGelu{saved.x, first.bias(), y});
  return y;
}

Tensor ActivationFunction::backward(Context& c, const Linear& first, const Linear& second, Tensor dy,
                                    Linear::Saved& second_saved, Saved& saved) const {
  if (!saved.bias_apart && second.fuses_input_gradient(c))
    return second.backward(c, std::move(dy), second_saved, std::exchange(saved.x, Tensor()));
  const Tensor gradient = second.backward(c, std::move(dy), second_saved);
  backward(c, first, gradient, saved);
  return gradient;
}

void ActivationFunction::backward(Context& c, const Linear& first, const Tensor& gradient,
                                  Saved& saved) const {
  run(c.device, ops::BiasGeluGrad{gradient, saved.x, saved.bias_apart ? first.bias() : Tensor(), gradient});
  saved = {};
}

}  // namespace mbench
