// A gated convolution of a few positions, of each channel by itself (LFM2): y = C conv(B x). There conv(u)(t) is the sum over k of
// weight[k] u[t - W + 1 + k], with zeros before the sequence. B, C and x lie side by side in what a projection made, group by group.
#pragma once
#include "engine/ops/causal_conv.h"

namespace mbench::ops {

inline ConvShape short_conv_shape(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& weight) {
  const ConvShape s = conv_shape(op, x, y, weight, Tensor(), 0);
  check(s.width == 3 * s.channels, op, "x, got {} of {} channels, need B, C and x of each", x.shape(), s.channels);
  return s;
}

struct ShortConv {
  static constexpr std::string_view name = "short_conv";
  Tensor x;       // [seq, batch, groups, (B, C, x)]
  Tensor weight;  // [groups * channels, taps]
  Tensor y;       // [seq, batch, groups, channels]
  ConvShape shape() const { return short_conv_shape(name, x, y, weight); }
  void check() const { shape(); }
  Cost cost() const {
    const double n = static_cast<double>(y.numel());
    return {n * static_cast<double>(2 * weight.shape()[1] + 2), bytes_of(x) + bytes_of(y)};
  }
};

struct ShortConvGrad {
  static constexpr std::string_view name = "short_conv_grad";
  Tensor dy;  // [seq, batch, groups, channels]
  Tensor x, weight;
  Tensor dx;       // like x
  Tensor dweight;  // accumulates; none where the weights are frozen
  ConvShape shape() const { return short_conv_shape(name, x, dy, weight); }
  void check() const {
    shape();
    need_same(name, "dx", dx, x);
    if (dweight) need_shape(name, "dweight", dweight, weight.shape());
  }
  Cost cost() const {
    const double n = static_cast<double>(dy.numel());
    return {n * static_cast<double>(6 * weight.shape()[1] + 6), 2 * bytes_of(x) + bytes_of(dy)};
  }
};

}  // namespace mbench::ops
