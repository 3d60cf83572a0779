// What the graph of a step keeps and fuses (plan/plan.h: GraphStyle), how attention is computed, and whether steps are
// recorded once and replayed.
#include <utility>

#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNotCaptured = one_of("capture", "false");
constexpr Way kAsMegatron = one_of("graph", "megatron_core");

// A replayed step does what the recorded one did: nothing in it may follow what the host reads of the device.
MaybeFault why_not_captured(const Point& p) {
  const bool experts = p.model.experts > 0;
  if (experts && p.router.routing == Routing::learned)
    return infeasible({one_of("router", "balanced|capacity:1"), kNotCaptured},
                      "capture true with router learned, whose experts have as many rows as the data say");
  const RoutingSpec& routing = p.model.parts().routing;
  if (experts && p.precision == Precision::fp16 && (routing.balance_loss > 0 || routing.z_loss > 0))
    return infeasible({one_of("precision", "bf16"), kNotCaptured},
                      "capture true with the router's losses in fp16, whose scale the host decides");
  if (p.offload != Offload::none)
    return infeasible({one_of("offload", "none"), kNotCaptured}, "capture true with offload {}, whose step is the host's",
                      name_of(p.offload));
  if (p.replicas == Replicas::single_process)
    return infeasible({one_of("replicas", "ranks"), kNotCaptured},
                      "capture true with replicas single_process, whose threads meet within a step");
  if (p.optimizer != OptimizerKind::adamw)
    return not_built_in({one_of("optimizer", "adamw"), kNotCaptured}, "capture true with optimizer {}", name_of(p.optimizer));
  if (p.precision == Precision::fp8)
    return not_built_in({one_of("precision", "bf16"), kNotCaptured}, "capture true with precision fp8");
  return std::nullopt;
}

// Choices within megatron_core that other graphs do not have.
MaybeFault why_not_chosen(const Point& p) {
  for (const auto& [name, member] : {std::pair{"grouped_experts", &Point::grouped_experts},
                                     std::pair{"mask_in_batch", &Point::mask_in_batch},
                                     std::pair{"transformer_engine", &Point::transformer_engine},
                                     std::pair{"rope_fusion", &Point::rope_fusion}})
    if (!(p.*member))
      return infeasible({kAsMegatron, one_of(name, "true")}, "{} false with graph {}", name, name_of(p.graph));
  return std::nullopt;
}

MaybeFault why_not_that_loss(const Point& p) {
  const CrossEntropyFusion fusion = p.cross_entropy_fusion;
  if (fusion == CrossEntropyFusion::te) return std::nullopt;
  const bool in_16_bits = fusion == CrossEntropyFusion::torch_16bit;
  const Graph needed = in_16_bits || fusion == CrossEntropyFusion::torch ? Graph::fused : Graph::megatron_core;
  if (p.graph != needed)
    return infeasible({one_of("graph", name_of(needed)), one_of("cross_entropy_fusion", "te")}, "cross_entropy_fusion {} with graph {}",
                      name_of(fusion), name_of(p.graph));
  if (in_16_bits && (p.precision == Precision::f32 || p.precision == Precision::tf32))
    return infeasible({one_of("cross_entropy_fusion", "torch"), one_of("precision", "bf16|fp16")},
                      "cross_entropy_fusion torch_16bit with precision {}, whose logits have 32 bits", name_of(p.precision));
  // PyTorch's own wants whole rows; DTensor's loss_parallel, of split ones, computes in f32.
  if (in_16_bits && p.tp > 1 && p.vocab_parallel)
    return not_built_in({exactly("tp", 1), one_of("vocab_parallel", "false"), one_of("cross_entropy_fusion", "torch")},
                        "cross_entropy_fusion torch_16bit with tp {}", p.tp);
  return std::nullopt;
}

// The engine's own kernel turns them in one.
MaybeFault why_not_unfused(const Point& p) {
  if (!p.simulated())
    return not_built_in({one_of("rope_fusion", "true"), one_of("device", "sim:")}, "rope_fusion false on {}", p.device);
  return std::nullopt;
}

// A real device runs the engine's kernels, whatever PyTorch would choose.
MaybeFault why_not_deterministic(const Point& p) {
  if (p.graph != Graph::megatron_core)
    return infeasible({kAsMegatron, one_of("deterministic", "false")}, "deterministic true with graph {}", name_of(p.graph));
  if (!p.simulated())
    return not_built_in({one_of("deterministic", "false"), one_of("device", "sim:")}, "deterministic true on {}", p.device);
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (p.capture)
    if (auto why = why_not_captured(p)) return why;
  if (p.deterministic)
    if (auto why = why_not_deterministic(p)) return why;
  if (auto why = why_not_that_loss(p)) return why;
  if (p.graph == Graph::megatron_core) return p.rope_fusion ? std::nullopt : why_not_unfused(p);
  if (auto why = why_not_chosen(p)) return why;
  if (!p.gradient_accumulation_fusion)
    return infeasible({kAsMegatron, one_of("gradient_accumulation_fusion", "true")},
                      "gradient_accumulation_fusion false with graph {}", name_of(p.graph));
  return std::nullopt;
}

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

// Of the point's graph, and its choices within megatron_core.
GraphStyle graph_style(const FrameworkSpec& p) {
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

void write(const Point& p, Plan& plan) {
  plan.graph = graph_style(p);
  plan.attention = p.attention;
  plan.capture = p.capture;
}

}  // namespace

Strategy graph() {
  return {"graph",
          {"graph", "cross_entropy_fusion", "gradient_accumulation_fusion", "grouped_experts", "mask_in_batch",
           "transformer_engine", "rope_fusion", "deterministic", "attention", "capture"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
