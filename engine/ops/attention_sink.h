// Attention sinks (Xiao et al. 2024; GPT-OSS): a learned logit of each head in the denominator of its softmax, without
// a key. Attention with the sink follows from attention without it: the log of the sum of exponentials grows, the
// output shrinks. The gradients of queries, keys and values are then those of attention (ops/attention.h) with these
// outputs and statistics.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

inline void need_sinks(std::string_view op, const Tensor& out, const Tensor& lse, const Tensor& sinks) {
  need_float(op, "out", out);
  check(out.shape().rank() == 4, op, "out, got {}, need [seq, batch, heads, v_dim]", out.shape());
  const Shape& s = out.shape();
  need_shape(op, "lse", lse, {s[1], s[2], s[0]});
  need_dtype(op, "lse", lse, DType::f32);
  need_float(op, "sinks", sinks);
  need_shape(op, "sinks", sinks, {s[2]});
}

// all = log(exp(lse) + exp(sink)); out = out * exp(lse - all); lse = all
struct AttentionSink {
  static constexpr std::string_view name = "attention_sink";
  static constexpr TimePart part = TimePart::attention;
  Tensor out;    // [seq, batch, heads, v_dim]
  Tensor lse;    // [batch, heads, seq] f32
  Tensor sinks;  // [heads]
  void check() const { need_sinks(name, out, lse, sinks); }
  Cost cost() const {
    return {static_cast<double>(out.numel() + 4 * lse.numel()), 2 * bytes_of(out) + 2 * bytes_of(lse)};
  }
};

// dsink -= exp(sink - lse) * (dout . out), summed over the rows of each head; out and lse as AttentionSink left them.
struct AttentionSinkGrad {
  static constexpr std::string_view name = "attention_sink_grad";
  static constexpr TimePart part = TimePart::attention;
  Tensor dout, out;
  Tensor lse, sinks;
  Tensor dsinks;  // [heads], accumulates
  void check() const {
    need_sinks(name, out, lse, sinks);
    need_same(name, "dout", dout, out);
    need_float(name, "dsinks", dsinks);
    need_shape(name, "dsinks", dsinks, sinks.shape());
  }
  Cost cost() const {
    return {static_cast<double>(2 * out.numel() + 4 * lse.numel()), 2 * bytes_of(out) + bytes_of(lse)};
  }
};

}  // namespace mbench::ops
