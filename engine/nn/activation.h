// The activation between two linear layers: in their products where the graph fuses epilogues, else by ops of its own.
#pragma once
#include "engine/nn/linear.h"

namespace mbench {

class ActivationFunction {
 public:
  // What the gradient is taken at: the input kept, the first layer's bias in it or not.
  struct Saved {
    Tensor x;
    bool bias_apart = false;
  };
  // Unsupported for a kind that has no op.
  explicit ActivationFunction(Activation kind);
  // activation(first(x) + its bias).
  Tensor forward(Context& context, const Linear& first, const Tensor& x, Linear::Saved& first_saved,
                 Saved& saved) const;
  // From the gradient of second(activation): the gradient of the activation's input. Frees what was saved.
  Tensor backward(Context& context, const Linear& first, const Linear& second, Tensor dy,
                  Linear::Saved& second_saved, Saved& saved) const;
  // From the gradient of the activation's output, in its place.
  void backward(Context& context, const Linear& first, const Tensor& gradient, Saved& saved) const;
};

}  // namespace mbench
