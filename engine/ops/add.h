// y = a + b, element by element; b may be in another dtype than the others.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Add {
  static constexpr std::string_view name = "add";
  Tensor a, b;
  Tensor y;  // may be a or b itself
  void check() const {
    need_float(name, "a", a);
    need_float(name, "b", b);
    need_shape(name, "b", b, a.shape());
    need_same(name, "y", y, a);
  }
  Cost cost() const { return {static_cast<double>(a.numel()), bytes_of(a) + bytes_of(b) + bytes_of(y)}; }
};

}  // namespace mbench::ops
