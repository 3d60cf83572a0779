// The gated activation of LLaMA (Shazeer 2020): y = silu(gate) * up, silu(z) = z / (1 + e^-z). Other families have GELU
// (tanh form or erf) or ReLU in place of silu. GPT-OSS's is clamped: y = z / (1 + e^(-alpha z)) (u + 1), with gates of
// at most the limit and ups within it on both sides. Gate and up of one output are neighbours in x, so that any cut of
// the linear layer's outputs has both. With weights each row of y is multiplied by its own, as Megatron-Core's experts
// do in the same kernel. Where gates and ups were computed separately, each is a tensor of its own.
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

// Gates and ups are tensors like y, or one tensor of pairs. Only pairs take a bias and weights of rows.
inline void need_gates(std::string_view op, const Tensor& x, const Tensor& up, const Tensor& bias,
                       const Tensor& weights, const Tensor& y) {
  need_float(op, "x", x);
  if (!up) return need_pairs(op, "x", x, y);
  need_same(op, "x", x, y);
  need_same(op, "up", up, y);
  mbench::check(!bias && !weights, op, "separate gates and ups with a bias or weights, need pairs");
}

enum class Gate { silu, gelu, gelu_erf, relu, clamped };
inline constexpr float kClampedAlpha = 1.702f, kClampedLimit = 7;

struct SwiGlu {
  static constexpr std::string_view name = "swiglu";
  Tensor x;             // [..., 2 n]: (gate, up) of each output; or with `up` [..., n], the gates
  Tensor bias;          // [2 n], optional: added to x
  Tensor y;             // [..., n]
  Tensor weights = {};  // optional: f32, one of each row
  Tensor up = {};       // optional: [..., n]
  Gate gate = Gate::silu;
  void check() const {
    need_gates(name, x, up, bias, weights, y);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    if (weights) need_row_weights(name, "weights", weights, y);
  }
  Cost cost() const { return {8.0 * static_cast<double>(y.numel()), bytes_of(x) + bytes_of(up) + bytes_of(y)}; }
};

struct SwiGluGrad {
  static constexpr std::string_view name = "swiglu_grad";
  Tensor dy;  // [..., n]
  Tensor x, bias;
  Tensor dx;                           // [..., 2 n]: pairs; may be x itself if that is pairs
  Tensor weights = {}, dweights = {};  // optional, both or none: f32, one of each row
  Tensor up = {};                      // optional, as above
  Gate gate = Gate::silu;
  void check() const {
    need_gates(name, x, up, bias, weights, dy);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_pairs(name, "dx", dx, dy);
    mbench::check(static_cast<bool>(weights) == static_cast<bool>(dweights), name,
                  "weights without their gradient, need both");
    if (!weights) return;
    need_row_weights(name, "weights", weights, dy);
    need_same(name, "dweights", dweights, weights);
  }
  Cost cost() const {
    return {14.0 * static_cast<double>(dy.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(up) + bytes_of(dx)};
  }
};

}  // namespace mbench::ops
