// The gated activation of LLaMA (Shazeer 2020): y = silu(gate) * up, silu(z) = z / (1 + e^-z). Gate and up of one output
// stand side by side in x, so that any cut of the linear layer's outputs has both.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline void need_pairs(std::string_view op, std::string_view argument, const Tensor& pairs, const Tensor& y) {
  Shape shape = y.shape();
  shape[-1] *= 2;
  need_shape(op, argument, pairs, shape);
  need_dtype(op, argument, pairs, y.dtype());
}

struct SwiGlu {
  static constexpr std::string_view name = "swiglu";
  Tensor x;     // [..., 2 n]: (gate, up) of each output
  Tensor bias;  // [2 n], optional: added to x
  Tensor y;     // [..., n]
  void check() const {
    need_float(name, "x", x);
    need_pairs(name, "x", x, y);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
  }
  Cost cost() const { return {8.0 * static_cast<double>(y.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct SwiGluGrad {
  static constexpr std::string_view name = "swiglu_grad";
  Tensor dy;  // [..., n]
  Tensor x, bias;
  Tensor dx;  // like x; may be x itself
  void check() const {
    need_float(name, "x", x);
    need_pairs(name, "x", x, dy);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
  }
  Cost cost() const {
    return {14.0 * static_cast<double>(dy.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
