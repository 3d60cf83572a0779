// y = tanh(x), BERT's pooler; and its gradient, dx = dy (1 - y^2).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct Tanh {
  static constexpr std::string_view name = "tanh";
  Tensor x;
  Tensor y;  // may be x itself
  void check() const {
    need_float(name, "x", x);
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {8.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct TanhGrad {
  static constexpr std::string_view name = "tanh_grad";
  Tensor dy, y;
  Tensor dx;  // may be dy itself
  void check() const {
    need_same(name, "dy", dy, y);
    need_same(name, "dx", dx, y);
  }
  Cost cost() const { return {3.0 * static_cast<double>(y.numel()), bytes_of(dy) + bytes_of(y) + bytes_of(dx)}; }
};

}  // namespace mbench::ops
