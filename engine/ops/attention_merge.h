// Attention over two sets of keys from what attention over each of them gave: outputs weighted by their share of the sum of
// exponentials, whose logarithms the forward keeps (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct
    AttentionMerge {  // out = out * exp(lse - all) + part * exp(part_lse - all), all = log(exp(lse) + exp(part_lse))
  static constexpr std::string_view name = "attention_merge";
  Tensor out;       // [seq, batch, heads, v_dim], f32 or part's dtype
  Tensor lse;       // [batch, heads, seq] f32, becomes `all`; -infinity: no key was seen
  Tensor part;      // like out
  Tensor part_lse;  // like lse
  void check() const {
    need_float(name, "out", out);
    need_float(name, "part", part);
    mbench::check(out.shape().rank() == 4, name, "out, got {}, need [seq, batch, heads, v_dim]", out.shape());
    mbench::check(out.dtype() == part.dtype() || out.dtype() == DType::f32, name,
                  "dtype of out, got {}, need f32 or the part's {}", name_of(out.dtype()),
                  name_of(part.dtype()));
    const Shape& s = out.shape();
    need_shape(name, "part", part, s);
    need_shape(name, "lse", lse, {s[1], s[2], s[0]});
    need_dtype(name, "lse", lse, DType::f32);
    need_same(name, "part_lse", part_lse, lse);
  }
  Cost cost() const {
    return {3 * static_cast<double>(out.numel()),
            2 * bytes_of(out) + bytes_of(part) + 2 * bytes_of(lse) + bytes_of(part_lse)};
  }
};

}  // namespace mbench::ops
