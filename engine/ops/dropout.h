// Dropout of a [seq, batch, width] hidden tensor or of [batch, heads, seq, seq] attention probabilities.
// A kept element is scaled by 1/(1-p). The mask can be stored (1 byte an element, 1 = kept) or, where `mask`
// is empty, drawn again in the gradient from the same counters.
#pragma once
#include <variant>

#include "engine/ops/arguments.h"

namespace mbench::ops {

using ElementMap = std::variant<HiddenMap, HeadMap>;

struct Dropout {
  static constexpr std::string_view name = "dropout";
  Tensor x;
  Tensor y;     // like x; may be x itself
  Tensor mask;  // optional u8, like x
  DropoutSpec dropout;
  ElementMap map;
  void check() const {
    need_float(name, "x", x);
    need_same(name, "y", y, x);
    if (mask) need_shape(name, "mask", mask, x.shape());
    if (mask) need_dtype(name, "mask", mask, DType::u8);
  }
  Cost cost() const { return {2.0 * static_cast<double>(x.numel()), bytes_of(x) + bytes_of(y) + bytes_of(mask)}; }
};

struct DropoutGrad {
  static constexpr std::string_view name = "dropout_grad";
  Tensor dy;
  Tensor dx;    // like dy; may be dy itself
  Tensor mask;  // as stored by the forward, or empty
  DropoutSpec dropout;
  ElementMap map;
  void check() const {
    need_float(name, "dy", dy);
    need_same(name, "dx", dx, dy);
    if (mask) need_shape(name, "mask", mask, dy.shape());
  }
  Cost cost() const { return {2.0 * static_cast<double>(dy.numel()), bytes_of(dy) + bytes_of(dx) + bytes_of(mask)}; }
};

}  // namespace mbench::ops
