// y = factor x: embedded words, logits and the gradients of what branches add, in models that multiply them (Gemma, Command-R,
// Granite).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Scale {
  static constexpr std::string_view name = "scale";
  Tensor x;
  Tensor y;  // like x; may be x itself
  float factor = 1;
  void check() const {
    need_float(name, "x", x);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

}  // namespace mbench::ops
