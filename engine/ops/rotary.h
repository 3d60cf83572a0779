// Rotary position embedding (Su et al. 2021), in place: pairs of columns of a head are rotated by an angle that grows
// with the position. The pairs are (i, i + turned / 2), as in GPT-NeoX, LLaMA in Hugging Face's transformers and
// Megatron.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Rotary {
  static constexpr std::string_view name = "rotary";
  Tensor x;       // [seq, batch, groups, width]: a group has `heads` heads next to each other; what follows them stays
  Tensor angles;  // [2, seq, turned / 2] f32: the cosines, then the sines
  std::int64_t heads = 1;     // of a group, head_dim columns each
  std::int64_t head_dim = 0;  // columns [first, first + turned()) of a head are rotated
  std::int64_t first = 0;
  bool back = false;  // by the negative angles, for the gradient

  std::int64_t turned() const { return 2 * angles.shape()[2]; }
  std::int64_t elements() const {
    const Shape& s = x.shape();
    return s[0] * s[1] * s[2] * heads * turned();
  }
  void check() const {
    need_float(name, "x", x);
    mbench::check(x.shape().rank() == 4, name, "x, got {}, need [seq, batch, groups, width]", x.shape());
    need_shape(name, "angles", angles, {2, x.shape()[0], angles.shape()[2]});
    need_dtype(name, "angles", angles, DType::f32);
    mbench::check(heads * head_dim <= x.shape()[3] && first + turned() <= head_dim, name,
                  "columns, got {} heads of {} with {} turned from {} on, need at most the width {}", heads, head_dim,
                  turned(), first, x.shape()[3]);
  }
  Cost cost() const {
    const double n = static_cast<double>(elements());
    return {3 * n, 2 * n * static_cast<double>(size_of(x.dtype())) + bytes_of(angles)};
  }
};

}  // namespace mbench::ops
