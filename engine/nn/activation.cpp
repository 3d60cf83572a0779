#include "engine/nn/activation.h"

#include "engine/ops/bias_gelu.h"
#include "engine/ops/gelu_erf.h"
#include "engine/ops/run.h"
#include "engine/ops/squared_relu.h"
#include "engine/ops/swiglu.h"

namespace mbench {

Tensor activate(Context& c, Activation kind, const Tensor& x, const Tensor& bias) {
  Shape shape = x.shape();
  switch (kind) {
    case Activation::gelu: {
      const Tensor y = c.activation(shape, "gelu output");
      run(c.device, ops::BiasGelu{x, bias, y});
      return y;
    }
    case Activation::gelu_erf: {
      const Tensor y = c.activation(shape, "gelu output");
      run(c.device, ops::GeluErf{x, bias, y});
      return y;
    }
    case Activation::squared_relu: {
      const Tensor y = c.activation(shape, "squared ReLU output");
      run(c.device, ops::SquaredRelu{x, bias, y});
      return y;
    }
    case Activation::swiglu: {
      shape[-1] /= 2;
      const Tensor y = c.activation(shape, "swiglu output");
      run(c.device, ops::SwiGlu{x, bias, y});
      return y;
    }
  }
  fail(ErrorKind::internal, "activation", "no op for {}", name_of(kind));
}

Tensor activation_gradient(Context& c, Activation kind, const Tensor& dy, const Tensor& x,
                           const Tensor& bias) {
  switch (kind) {
    case Activation::gelu:
      run(c.device, ops::BiasGeluGrad{dy, x, bias, dy});
      return dy;
    case Activation::gelu_erf:
      run(c.device, ops::GeluErfGrad{dy, x, bias, dy});
      return dy;
    case Activation::squared_relu:
      run(c.device, ops::SquaredReluGrad{dy, x, bias, dy});
      return dy;
    case Activation::swiglu: {  // pairs for each output: the gradient takes the input's place
      run(c.device, ops::SwiGluGrad{dy, x, bias, x});
      return x;
    }
  }
  fail(ErrorKind::internal, "activation", "no op for {}", name_of(kind));
}

Tensor ActivationFunction::forward(Context& c, const Linear& first, const Tensor& x,
                                   Linear::Saved& first_saved, Saved& saved) const {
  if (kind_ == Activation::gelu && first.fuses_output(c))
    return first.forward(c, x, first_saved,
                         {.bias = static_cast<bool>(first.bias()), .gelu_input = &saved.x});
  saved = {first.forward(c, x, first_saved), true};
  return activate(c, kind_, saved.x, first.bias());
}

Tensor ActivationFunction::backward(Context& c, const Linear& first, const Linear& second, Tensor dy,
                                    Linear::Saved& second_saved, Saved& saved) const {
  if (kind_ == Activation::gelu && !saved.bias_apart && second.fuses_input_gradient(c))
    return second.backward(c, std::move(dy), second_saved, std::exchange(saved.x, Tensor()));
  const Tensor gradient = second.backward(c, std::move(dy), second_saved);
  return backward(c, first, gradient, saved);
}

Tensor ActivationFunction::backward(Context& c, const Linear& first, const Tensor& gradient,
                                    Saved& kept) const {
  const Saved saved = std::exchange(kept, {});
  return activation_gradient(c, kind_, gradient, saved.x, saved.bias_apart ? first.bias() : Tensor());
}

}  // namespace mbench
