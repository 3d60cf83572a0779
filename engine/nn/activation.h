// The activation between two linear layers: GELU (in its tanh form) in their products where the graph fuses epilogues; else, and the others
// always, by ops of its own.
#pragma once
#include "engine/nn/linear.h"
#include "engine/ops/swiglu.h"

namespace mbench {

// Of a gated activation: what its gate is.
ops::Gate gate_of(Activation kind);

// activation(x + bias); an empty bias adds none. Gated: x holds (gate, up) of each output side by side.
Tensor activate(Context& context, Activation kind, const Tensor& x, const Tensor& bias);
// The gradient of x from that of the output, in the place of one of the two, which must be the caller's alone.
Tensor activation_gradient(Context& context, Activation kind, const Tensor& dy, const Tensor& x, const Tensor& bias);

class ActivationFunction {
 public:
  // What the gradient is taken at: the input kept, the first layer's bias in it or not.
  struct Saved {
    Tensor x;
    bool separate_bias = false;
  };
  explicit ActivationFunction(Activation kind) : kind_(kind) {}
  // activation(first(x) + its bias).
  Tensor forward(Context& context, const Linear& first, const Tensor& x, Linear::Saved& first_saved,
                 Saved& saved) const;
  // From the gradient of second(activation): the gradient of the activation's input. Frees what was saved.
  Tensor backward(Context& context, const Linear& first, const Linear& second, Tensor dy, Linear::Saved& second_saved,
                  Saved& saved) const;
  // From the gradient of the activation's output, which is the callee's to overwrite, that of its input.
  Tensor backward(Context& context, const Linear& first, const Tensor& gradient, Saved& saved) const;

 private:
  Activation kind_;
};

}  // namespace mbench
