#include "engine/nn/activation.h"

#include "engine/ops/ops.h"

namespace mbench {

Tensor ActivationFunction::forward(Context& c, const Linear& first, const Tensor& x,
                                   Linear::Saved& first_saved, Saved& saved) const {
  if (kind_ == Activation::gelu && first.fuses_output(c))
    return first.forward(c, x, first_saved,
                         {.bias = static_cast<bool>(first.bias()), .gelu_input = &saved.x});
  saved = {first.forward(c, x, first_saved), true};
  Shape shape = saved.x.shape();
  switch (kind_) {
    case Activation::gelu: {
      const Tensor y = c.activation(shape, "gelu output");
      run(c.device, ops::BiasGelu{saved.x, first.bias(), y});
      return y;
    }
    case Activation::gelu_erf: {
      const Tensor y = c.activation(shape, "gelu output");
      run(c.device, ops::GeluErf{saved.x, first.bias(), y});
      return y;
    }
    case Activation::squared_relu: {
      const Tensor y = c.activation(shape, "squared ReLU output");
      run(c.device, ops::SquaredRelu{saved.x, first.bias(), y});
      return y;
    }
    case Activation::swiglu: {
      shape[-1] /= 2;
      const Tensor y = c.activation(shape, "swiglu output");
      run(c.device, ops::SwiGlu{saved.x, first.bias(), y});
      return y;
    }
  }
  fail(ErrorKind::internal, "activation", "no op for {}", name_of(kind_));
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
  const Tensor bias = saved.bias_apart ? first.bias() : Tensor();
  switch (kind_) {
    case Activation::gelu:
      run(c.device, ops::BiasGeluGrad{gradient, saved.x, bias, gradient});
      return gradient;
    case Activation::gelu_erf:
      run(c.device, ops::GeluErfGrad{gradient, saved.x, bias, gradient});
      return gradient;
    case Activation::squared_relu:
      run(c.device, ops::SquaredReluGrad{gradient, saved.x, bias, gradient});
      return gradient;
    case Activation::swiglu: {  // pairs for each output: the gradient takes the input's place
      run(c.device, ops::SwiGluGrad{gradient, saved.x, bias, saved.x});
      return saved.x;
    }
  }
  fail(ErrorKind::internal, "activation", "no op for {}", name_of(kind_));
}

}  // namespace mbench
