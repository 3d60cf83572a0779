// Merges the results of attention over two sets of keys. Each output is weighted by its share of the sum of
// exponentials. The forward keeps that sum's logarithm (Milakov and Gimelshein 2018, "Online normalizer calculation for
// softmax").
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

// out = out * exp(lse - all) + added * exp(added_lse - all), all = log(exp(lse) + exp(added_lse))
struct AttentionMerge {
  static constexpr std::string_view name = "attention_merge";
  static constexpr TimePart part = TimePart::attention;
  Tensor out;        // [seq, batch, heads, v_dim], f32 or added's dtype
  Tensor lse;        // [batch, heads, seq] f32, becomes `all`; -infinity: no key was seen
  Tensor added;      // like out
  Tensor added_lse;  // like lse
  void check() const {
    need_float(name, "out", out);
    need_float(name, "added", added);
    mbench::check(out.shape().rank() == 4, name, "out, got {}, need [seq, batch, heads, v_dim]", out.shape());
    mbench::check(out.dtype() == added.dtype() || out.dtype() == DType::f32, name,
                  "dtype of out, got {}, need f32 or the added's {}", name_of(out.dtype()), name_of(added.dtype()));
    const Shape& s = out.shape();
    need_shape(name, "added", added, s);
    need_shape(name, "lse", lse, {s[1], s[2], s[0]});
    need_dtype(name, "lse", lse, DType::f32);
    need_same(name, "added_lse", added_lse, lse);
  }
  Cost cost() const {
    return {3 * static_cast<double>(out.numel()),
            2 * bytes_of(out) + bytes_of(added) + 2 * bytes_of(lse) + bytes_of(added_lse)};
  }
};

}  // namespace mbench::ops
