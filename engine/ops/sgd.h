// One step of stochastic gradient descent with momentum, as torch.optim.SGD computes it (dampening 0, no Nesterov):
// g = grad_scale * grad + weight_decay * p; b = momentum * b + g; p -= lr * b.
// b is zero before the first step, so that step has b = g, as in PyTorch.
#pragma once
#include "engine/ops/arguments.h"
#include "engine/ops/ranges.h"

namespace mbench::ops {

struct Sgd {
  static constexpr std::string_view name = "sgd";
  static constexpr TimePart part = TimePart::optimizer;
  Tensor param;     // f32, the main weights
  Tensor grad;      // f32, bf16 or f16
  Tensor velocity;  // b, f32
  Tensor model;     // optional 16-bit weights that the model computes with: rewritten from param
  float lr = 0, momentum = 0.9f, weight_decay = 0;
  float grad_scale = 1;          // undoes loss scaling and clips
  ElementRanges undecayed = {};  // spared by weight_decay: biases and norms
  void check() const {
    need_dtype(name, "param", param, DType::f32);
    need_same(name, "velocity", velocity, param);
    need_float(name, "grad", grad);
    need_shape(name, "grad", grad, param.shape());
    if (model) need_shape(name, "model", model, param.shape());
    need_ranges(name, "undecayed", undecayed, param.numel());
  }
  Cost cost() const {
    return {7.0 * static_cast<double>(param.numel()),
            2 * bytes_of(param) + 2 * bytes_of(velocity) + bytes_of(grad) + bytes_of(model)};
  }
};

}  // namespace mbench::ops
