// y = residual + scale * dropout(x + bias), the end of every residual branch. Gradients: the residual's is dy, the
// branch's is DropoutGrad of scale * dy, and the bias's is BiasGrad of the branch's.
#pragma once
#include "engine/ops/dropout.h"

namespace mbench::ops {

struct BiasDropoutAdd {
  static constexpr std::string_view name = "bias_dropout_add";
  Tensor x;             // [seq, batch, n]
  Tensor bias;          // [n], optional
  Tensor residual;      // like x
  Tensor y;             // like x; may be x itself
  Tensor mask;          // optional u8, like x
  DropoutSpec dropout;  // p = 0: no draw
  HiddenMap map;
  float scale = 1;
  void check() const {
    need_float(name, "x", x);
    if (bias) need_shape(name, "bias", bias, {x.shape().cols()});
    need_same(name, "residual", residual, x);
    need_same(name, "y", y, x);
    if (mask) need_shape(name, "mask", mask, x.shape());
  }
  Cost cost() const {
    return {4.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(residual) + bytes_of(y) + bytes_of(mask)};
  }
};

}  // namespace mbench::ops
