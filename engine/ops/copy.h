// Copies and casts: to = scale * from, floating-point types of any width; and filling with a constant.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Copy {
  static constexpr std::string_view name = "copy";
  static constexpr TimePart part = TimePart::copies;
  Tensor from;
  Tensor to;  // same shape, any floating-point dtype
  float scale = 1;
  void check() const {
    need_float(name, "from", from);
    need_float(name, "to", to);
    need_shape(name, "to", to, from.shape());
  }
  Cost cost() const { return {0, bytes_of(from) + bytes_of(to)}; }
};

struct Fill {
  static constexpr std::string_view name = "fill";
  static constexpr TimePart part = TimePart::copies;
  Tensor x;  // floating-point
  float value = 0;
  void check() const { need_float(name, "x", x); }
  Cost cost() const { return {0, bytes_of(x)}; }
};

}  // namespace mbench::ops
