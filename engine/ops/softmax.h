// Scaled, masked softmax of attention scores [batch, heads, seq_q, seq_k] over keys:
// probs = softmax(scale * scores), hidden keys get probability 0. What hides a key: `causal` (k > q), or
// `mask` (u8, 1 = hidden, [1 or batch, seq_q, seq_k]), or keep[b, k] == 0, or that it lies outside [bounds[0, q], bounds[1, q]).
// A row with no key left is all zeros.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr TimePart part = TimePart::attention;
  Tensor scores;  // [batch, heads, seq_q, seq_k]
  Tensor probs;   // like scores; may be scores itself
  float scale = 1;
  bool causal = false;
  Tensor mask;      // optional
  Tensor keep;      // optional [batch, seq_k] u8
  Tensor bounds{};  // optional [2, seq_q] i64
  void check() const {
    need_float(name, "scores", scores);
    need_same(name, "probs", probs, scores);
    const Shape& s = scores.shape();
    mbench::check(s.rank() == 4, name, "scores must have 4 dims, got {}", s);
    if (mask) need_shape(name, "mask", mask, {mask.shape()[0], s[2], s[3]});
    if (keep) need_shape(name, "keep", keep, {s[0], s[3]});
    if (bounds) need_shape(name, "bounds", bounds, {2, s[2]}), need_dtype(name, "bounds", bounds, DType::i64);
  }
  Cost cost() const { return {8.0 * static_cast<double>(scores.numel()), bytes_of(scores) + bytes_of(probs)}; }
};

struct SoftmaxGrad {  // dscores = scale * probs * (dprobs - sum(probs * dprobs)) row by row
  static constexpr std::string_view name = "softmax_grad";
  static constexpr TimePart part = TimePart::attention;
  Tensor dprobs, probs;
  Tensor dscores;  // like dprobs; may be dprobs itself
  float scale = 1;
  bool causal = false;  // hidden entries have probs 0 and may be skipped
  void check() const {
    need_float(name, "probs", probs);
    need_same(name, "dprobs", dprobs, probs);
    need_same(name, "dscores", dscores, probs);
  }
  Cost cost() const {
    return {5.0 * static_cast<double>(probs.numel()), bytes_of(dprobs) + bytes_of(probs) + bytes_of(dscores)};
  }
};

}  // namespace mbench::ops
