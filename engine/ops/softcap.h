// y = cap tanh(x / cap), which keeps logits within (-cap, cap) (Gemma 2); and its gradient, dx = dy (1 - tanh(x / cap)^2).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Softcap {
  static constexpr std::string_view name = "softcap";
  Tensor x;
  Tensor y;  // like x; may be x itself
  float cap = 1;
  void check() const {
    need_float(name, "x", x);
    need_same(name, "y", y, x);
    mbench::check(cap > 0, name, "cap, got {}, need more than 0", cap);
  }
  Cost cost() const { return {10.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct SoftcapGrad {
  static constexpr std::string_view name = "softcap_grad";
  Tensor dy, x;
  Tensor dx;  // like x; may be dy itself
  float cap = 1;
  void check() const {
    need_float(name, "x", x);
    need_same(name, "dy", dy, x);
    need_same(name, "dx", dx, x);
    mbench::check(cap > 0, name, "cap, got {}, need more than 0", cap);
  }
  Cost cost() const { return {12.0 * static_cast<double>(x.numel()), bytes_of(dy) + bytes_of(x) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
