#include "engine/plan/plan.h"

namespace mbench {
namespace {

LogitsGradient logits_gradient(CrossEntropyFusion fusion) {
  switch (fusion) {
    case CrossEntropyFusion::none: return LogitsGradient::exponentials_in_copy;
    case CrossEntropyFusion::native: return LogitsGradient::exponentials_apart;
    case CrossEntropyFusion::torch: return LogitsGradient::gradients_apart;
    case CrossEntropyFusion::torch_16bit: return LogitsGradient::gradients_in_16_bits;
    case CrossEntropyFusion::te: break;
  }
  return LogitsGradient::in_place;
}

}  // namespace

GraphStyle graph_style(const Point& p) {
  if (p.graph == Graph::megatron_core)
    return {.fused_attention = false,
            .stored_masks = true,
            .attention_mask = false,
            .global_buffer = !p.transformer_engine,
            .logits_gradient = logits_gradient(p.cross_entropy_fusion),
            .gradient_copy_in_f32 = true,
            .fused_residual_grad = false,
            .fused_epilogues = false,
            .weight_gradients =
                p.gradient_accumulation_fusion ? WeightGradients::placeholder : WeightGradients::apart,
            .zeroed_gradients = true,
            .weights_within_experts = true,
            .grouped_experts = p.grouped_experts,
            .mask_in_batch = p.mask_in_batch,
            .unfused_rotary = !p.rope_fusion,
            .down_apart = true,
            .forwarding_kernels = true,
            .reads_expert_rows = true};
  if (p.graph == Graph::eager)
    return {.fused_attention = false,
            .stored_masks = true,
            .attention_mask = true,
            .global_buffer = true,
            .logits_gradient = LogitsGradient::exponentials_apart,
            .gradient_copy_in_f32 = true,
            .fused_residual_grad = false,
            .fused_epilogues = false,
            .weight_gradients = WeightGradients::in_buffer,
            .zeroed_gradients = true,
            .weights_within_experts = false};
  return {.fused_attention = true,
          .stored_masks = false,
          .attention_mask = false,
          .global_buffer = false,
          .logits_gradient = logits_gradient(p.cross_entropy_fusion),
          .gradient_copy_in_f32 = false,
          .fused_residual_grad = true,
          .fused_epilogues = true,
          .weight_gradients = WeightGradients::in_buffer,
          .zeroed_gradients = false,
          .weights_within_experts = false};
}

// Megatron: fp16 gradients accumulate in fp16 unless asked otherwise; with bf16 they accumulate and reduce in
// f32 unless asked otherwise.
PrecisionPlan precision_plan(const Point& p) {
  const DType moments = p.moments_in_bf16 ? DType::bf16 : DType::f32;
  switch (p.precision) {
    case Precision::bf16:
      return {.model = DType::bf16,
              .gradients = p.gradients_in_bf16 ? DType::bf16 : DType::f32,
              .moments = moments,
              .main = p.main_weights_in_bf16 ? DType::bf16 : DType::f32};
    case Precision::fp8:
      return {.model = DType::bf16,
              .gradients = p.gradients_in_bf16 ? DType::bf16 : DType::f32,
              .moments = moments,
              .fp8 = p.fp8_recipe,
              .fp8_parameters = p.fp8_parameters};
    case Precision::fp16:
      return {.model = DType::f16,
              .gradients = p.gradients_in_f32 ? DType::f32 : DType::f16,
              .loss_scaling = true,
              .moments = moments};
    default:
      return {};
  }
}

SequenceShare Plan::share_of(int cp_rank) const {
  return {training.seq, mesh.size(Axis::cp), cp_rank, cp_communication != CpCommunication::all_to_all};
}

Flow Plan::whole_share() const {
  Flow flow = hidden;
  for (const Axis axis : ((kDenseAxes | kExpertAxes) - Axes{Axis::cp}).list())
    if (flow.value[axis].sharded(0)) flow = flow.with(axis, replicate, replicate);
  return flow;
}

std::string_view name_of(Action::Kind kind) {
  static constexpr std::string_view names[] = {"receive activation", "forward",  "send activation",
                                               "receive gradient",   "backward", "send gradient"};
  return names[static_cast<int>(kind)];
}

}  // namespace mbench
