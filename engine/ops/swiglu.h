// The gated activation of LLaMA (Shazeer 2020): y = silu(gate) * up, silu(z) = z / (1 + e^-z). Gate and up of one output
// stand side by side in x, so that any cut of the linear layer's outputs has both. With weights each row of y is multiplied by its
// own, as Megatron-Core's experts do in the same kernel.
#pragma once
#include "engine/ops/arguments.h"
#include "engine/ops/scale_rows.h"

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
  Tensor weights = {};  // optional: f32, one of each row
  void check() const {
    need_float(name, "x", x);
    need_pairs(name, "x", x, y);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    if (weights) need_row_weights(name, "weights", weights, y);
  }
  Cost cost() const { return {8.0 * static_cast<double>(y.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct SwiGluGrad {
  static constexpr std::string_view name = "swiglu_grad";
  Tensor dy;  // [..., n]
  Tensor x, bias;
  Tensor dx;  // like x; may be x itself
  Tensor weights = {}, dweights = {};  // optional, both or none: f32, one of each row
  void check() const {
    need_float(name, "x", x);
    need_pairs(name, "x", x, dy);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "dx", dx, x);
    mbench::check(static_cast<bool>(weights) == static_cast<bool>(dweights), name, "weights without their gradient, need both");
    if (!weights) return;
    need_row_weights(name, "weights", weights, dy);
    need_same(name, "dweights", dweights, weights);
  }
  Cost cost() const {
    return {14.0 * static_cast<double>(dy.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
