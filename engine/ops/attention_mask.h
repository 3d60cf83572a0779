// Builds the attention mask that Megatron's eager graph keeps for a micro batch: u8, 1 = hidden.
// Causal: [1, seq, seq], the same for all samples. Padding: [batch, seq, seq], key k hidden where keep[b, k]
// is 0.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct AttentionMask {
  static constexpr std::string_view name = "attention_mask";
  static constexpr TimePart part = TimePart::attention;
  Tensor keep;  // [batch, seq] u8, 1 = a real token; empty for causal
  Tensor mask;  // [1 or batch, seq, seq] u8
  void check() const {
    need_dtype(name, "mask", mask, DType::u8);
    if (keep) need_shape(name, "keep", keep, {mask.shape()[0], mask.shape()[2]});
  }
  Cost cost() const { return {0, bytes_of(mask)}; }
};

}  // namespace mbench::ops
