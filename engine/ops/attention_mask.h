// Builds the attention mask that Megatron's eager graph keeps for a micro batch: u8, 1 = hidden.
// Causal: [1, seq, seq], the same for all samples. Padding: [batch, seq, seq], key k hidden where keep[b, k]
// is 0. With bounds also those keys of query q that lie outside [bounds[0, q], bounds[1, q]).
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct AttentionMask {
  static constexpr std::string_view name = "attention_mask";
  static constexpr TimePart part = TimePart::attention;
  Tensor keep;      // [batch, seq] u8, 1 = a real token; empty for causal
  Tensor mask;      // [1 or batch, seq, seq] u8
  Tensor bounds{};  // optional [2, seq] i64
  void check() const {
    need_dtype(name, "mask", mask, DType::u8);
    if (keep) need_shape(name, "keep", keep, {mask.shape()[0], mask.shape()[2]});
    if (bounds)
      need_shape(name, "bounds", bounds, {2, mask.shape()[1]}), need_dtype(name, "bounds", bounds, DType::i64);
  }
  Cost cost() const { return {0, bytes_of(mask)}; }
};

}  // namespace mbench::ops
