// y = x + bias, the bias of the last dim added to every row; and its gradient, a sum over rows.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct BiasAdd {
  static constexpr std::string_view name = "bias_add";
  static constexpr double kFlops = 1;  // per element of x
  Tensor x;                            // [..., n]
  Tensor bias;                         // [n], x's dtype
  Tensor y;                            // like x; may be x itself
  void check() const {
    need_float(name, "x", x);
    need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "y", y, x);
  }
  Cost cost() const { return {kFlops * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y)}; }
};

struct BiasGrad {  // dbias += sum over rows of dy
  static constexpr std::string_view name = "bias_grad";
  static constexpr double kFlops = 1;  // per element of dy
  Tensor dy;                           // [..., n]
  Tensor dbias;                        // [n], f32 or dy's dtype
  void check() const {
    need_float(name, "dy", dy);
    need_float(name, "dbias", dbias);
    need_shape(name, "dbias", dbias, {dy.shape().cols()});
  }
  Cost cost() const { return {kFlops * static_cast<double>(dy.numel()), bytes_of(dy)}; }
};

}  // namespace mbench::ops
