// The activation between two linear layers. Where the graph fuses epilogues, GELU (in its tanh form) runs in their
// GEMMs. Otherwise activations are ops of their own.
#pragma once
#include "engine/nn/linear/linear.h"
#include "engine/ops/swiglu.h"

namespace mbench::nn {

// The gate of a gated activation.
ops::Gate gate_of(Activation kind);

// activation(x + bias); an empty bias adds none. Gated: x holds (gate, up) of each output as neighbours.
Tensor activate(Context& context, Activation kind, const Tensor& x, const Tensor& bias);
// The gradient of x from the gradient of the output. It overwrites one of dy and x, which must be only the caller's.
Tensor activation_gradient(Context& context, Activation kind, const Tensor& dy, const Tensor& x, const Tensor& bias);

// The numbers that xIELU learns; null where an activation has none.
struct Alphas {
  Parameter *p = nullptr, *n = nullptr;
};

class ActivationFunction {
 public:
  // The input that the gradient needs, with or without the first layer's bias.
  struct Saved {
    Tensor x;
    bool separate_bias = false;
    Tensor active;  // stands for the activated gates, where the framework has them in a tensor of their own
  };
  // `factor`: on gates.
  explicit ActivationFunction(Activation kind, Alphas alphas = {}, float factor = 1)
      : kind_(kind), alphas_(alphas), factor_(factor) {}
  // activation(first(x) + its bias).
  Tensor forward(Context& context, const Linear& first, const Tensor& x, Linear::Saved& first_saved,
                 Saved& saved) const;
  // The gradient of the activation's input from the gradient of second(activation). Frees what was saved.
  Tensor backward(Context& context, const Linear& first, const Linear& second, Tensor dy, Linear::Saved& second_saved,
                  Saved& saved) const;
  // The gradient of the activation's input from the gradient of its output, which the callee may overwrite.
  Tensor backward(Context& context, const Linear& first, const Tensor& gradient, Saved& saved) const;

 private:
  // Pairs of gates and ups, or their gradients, with gates times their factor.
  void multiply(Context& context, const Tensor& pairs) const;

  Activation kind_;
  Alphas alphas_;
  float factor_;
};

}  // namespace mbench::nn
