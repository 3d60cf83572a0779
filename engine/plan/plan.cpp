#include "engine/plan/plan.h"

namespace mbench {

GraphStyle graph_style(Graph graph) {
  if (graph == Graph::eager)
    return {.fused_attention = false,
            .stored_masks = true,
            .attention_mask = true,
            .global_buffer = true,
            .logits_in_f32 = true,
            .gradient_copy_in_f32 = true,
            .fused_residual_grad = false,
            .fused_epilogues = false};
  return {.fused_attention = true,
          .stored_masks = false,
          .attention_mask = false,
          .global_buffer = false,
          .logits_in_f32 = false,
          .gradient_copy_in_f32 = false,
          .fused_residual_grad = true,
          .fused_epilogues = true};
}

DType Plan::model_dtype() const {
  switch (point.precision) {
    case Precision::bf16:
      return DType::bf16;
    case Precision::fp16:
      return DType::f16;
    default:
      return DType::f32;
  }
}

// Megatron: fp16 gradients accumulate in fp16 unless asked otherwise; with bf16 they accumulate and reduce in
// f32.
DType Plan::gradient_dtype() const {
  return point.precision == Precision::fp16 && !point.gradients_in_f32 ? DType::f16 : DType::f32;
}

std::string_view name_of(Action::Kind kind) {
  static constexpr std::string_view names[] = {"receive activation", "forward",  "send activation",
                                               "receive gradient",   "backward", "send gradient"};
  return names[static_cast<int>(kind)];
}

}  // namespace mbench
