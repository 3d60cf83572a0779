// A causal convolution along the sequence and SiLU, of each channel by itself (Mamba's conv1d).
// y = silu(bias + sum over k of weight[k] x[t - W + 1 + k]), with zeros before the sequence.
// The channels are columns of a wider tensor, where a projection made them.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline constexpr int kMostTaps = 8;

// Which columns of [seq, batch, groups, width] are convolved: [first, first + channels) of each group.
struct ConvShape {
  std::int64_t seq = 0, batch = 0, groups = 0, width = 0, channels = 0, first = 0, taps = 0;
};

inline ConvShape conv_shape(std::string_view op, const Tensor& x, const Tensor& y, const Tensor& weight,
                            const Tensor& bias, std::int64_t first) {
  need_float(op, "x", x);
  check(x.shape().rank() == 4 && y.shape().rank() == 4, op, "x and y, got {} and {}, need [seq, batch, groups, width]",
        x.shape(), y.shape());
  const Shape &s = x.shape(), &n = y.shape();
  need_shape(op, "y", y, {s[0], s[1], s[2], n[3]});
  need_dtype(op, "y", y, x.dtype());
  check(first >= 0 && first + n[3] <= s[3], op, "channels [{}, {}), need some of {} columns", first, first + n[3],
        s[3]);
  check(weight.shape().rank() == 2 && weight.shape()[0] == s[2] * n[3], op, "weight, got {}, need [{}, taps]",
        weight.shape(), s[2] * n[3]);
  check(weight.shape()[1] >= 1 && weight.shape()[1] <= kMostTaps, op, "taps, got {}, need 1 to {}", weight.shape()[1],
        kMostTaps);
  need_dtype(op, "weight", weight, x.dtype());
  if (bias) {
    need_shape(op, "bias", bias, {s[2] * n[3]});
    need_dtype(op, "bias", bias, x.dtype());
  }
  return {s[0], s[1], s[2], s[3], n[3], first, weight.shape()[1]};
}

struct CausalConv {
  static constexpr std::string_view name = "causal_conv";
  Tensor x;       // [seq, batch, groups, width]
  Tensor weight;  // [groups * channels, taps]
  Tensor bias;    // [groups * channels], optional
  Tensor y;       // [seq, batch, groups, channels]
  std::int64_t first = 0;
  ConvShape shape() const { return conv_shape(name, x, y, weight, bias, first); }
  void check() const { shape(); }
  Cost cost() const {
    const double n = static_cast<double>(y.numel());
    return {n * static_cast<double>(2 * weight.shape()[1] + 4), 2 * bytes_of(y)};
  }
};

struct CausalConvGrad {
  static constexpr std::string_view name = "causal_conv_grad";
  Tensor dy;  // [seq, batch, groups, channels]
  Tensor x, weight, bias;
  Tensor dx;              // like x; only the channels are written
  Tensor dweight, dbias;  // accumulate; none where the weights are frozen
  std::int64_t first = 0;
  ConvShape shape() const { return conv_shape(name, x, dy, weight, bias, first); }
  void check() const {
    shape();
    need_same(name, "dx", dx, x);
    if (dweight) need_shape(name, "dweight", dweight, weight.shape());
    mbench::check(!dbias || bias, name, "gradient of a bias that is not there");
    if (dbias) need_shape(name, "dbias", dbias, bias.shape());
  }
  Cost cost() const {
    const double n = static_cast<double>(dy.numel());
    return {n * static_cast<double>(6 * weight.shape()[1] + 10), 3 * bytes_of(dy)};
  }
};

}  // namespace mbench::ops
