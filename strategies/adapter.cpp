// Low-rank adapters (engine/point/adapter.h): which weights are trained. How an adapter is cut follows from the layer that it belongs to
// (engine/nn/adapter.h).
#include <algorithm>

#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNone = one_of("adapter", "none");

bool targets(const Point& p, std::string_view name) {
  return std::find(p.adapter.targets.begin(), p.adapter.targets.end(), name) != p.adapter.targets.end();
}

std::optional<std::int64_t> stage_without_layers(const Point& p) {
  if (p.pp == 1 || bad_stages(p)) return std::nullopt;
  std::vector<std::int64_t> layers(static_cast<std::size_t>(p.pp), 0);
  const PipelineLayout stages = stages_of(p);
  for (std::size_t i = 0; i < stages.size(); ++i) layers[i % layers.size()] += stages[i].layers;
  const auto none = std::find(layers.begin(), layers.end(), 0);
  return none == layers.end() ? std::nullopt : std::optional(none - layers.begin());
}

MaybeFault refuse(const Point& p) {
  if (!p.adapter.on()) return std::nullopt;
  const ModelSpec& m = p.model;
  const std::string adapter = "adapter " + str(p.adapter);
  if (p.adapter.in_4_bits()) return not_built_in({kNone}, "{}: a base in 4 bits", adapter);
  if (m.parts().attention_form == AttentionForm::latent)
    return not_built_in({kNone}, "{} with latent attention", adapter);
  if (m.experts > 0 && (targets(p, "fc1") || targets(p, "fc2")))
    return not_built_in({kNone}, "{} of experts (fc1, fc2)", adapter);
  if (m.experts > 0 && m.parts().bias.experts)
    return not_built_in({kNone}, "{} with experts that have biases", adapter);
  if (m.mtp_layers > 0)
    return not_built_in({kNone, exactly("model.mtp_layers", 0)}, "{} with mtp_layers {}", adapter, m.mtp_layers);
  const std::int64_t kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  if (targets(p, "qkv") && kv_heads % p.tp != 0)
    return not_built_in({kNone, divisor("tp", kv_heads)}, "{} of qkv with tp {} and {} key and value heads", adapter,
                        p.tp, kv_heads);
  if (quantises(p.precision) && m.experts > 0)
    return not_built_in({kNone, one_of("precision", "bf16|fp16|f32")}, "{} with experts in precision {}", adapter,
                        name_of(p.precision));
  if (p.precision == Precision::fp8 && p.fp8_parameters)
    return not_built_in({kNone, one_of("precision.fp8_parameters", "false")}, "{} with precision.fp8_parameters",
                        adapter);
  if (p.offload != Offload::none)
    return not_built_in({kNone, one_of("offload", "none")}, "{} with offload {}", adapter, name_of(p.offload));
  if (p.replicas == Replicas::single_process)
    return not_built_in({kNone, one_of("replicas", "ranks")}, "{} with replicas single_process", adapter);
  if (p.tp_comm_overlap)
    return not_built_in({kNone, one_of("tp_comm_overlap", "false")}, "{} with tp_comm_overlap", adapter);
  if (p.tp_gathers == TpGathers::gemm)
    return not_built_in({kNone, one_of("tp_gathers", "block")}, "{} with tp_gathers product", adapter);
  if (p.recompute.regions.has(Region::alternate_gemms))
    return not_built_in({kNone, one_of("recompute", "none|selective|full")}, "{} with recompute alternate_products",
                        adapter);
  if (p.defer_embedding_wgrad)
    return infeasible({kNone, one_of("defer_embedding_wgrad", "false")},
                      "{} with defer_embedding_wgrad: the logits' weight is frozen", adapter);
  if (p.optimizer == OptimizerKind::muon)
    return not_built_in({kNone, one_of("optimizer", "adamw")}, "{} with optimizer muon", adapter);
  if (const auto stage = stage_without_layers(p))
    return not_built_in({kNone, within("pp", 1, p.pp - 1)},
                        "{} with stage {} of {} that has no layer, and so nothing to train", adapter, *stage, p.pp);
  return std::nullopt;
}

void write(const Point& p, Plan& plan) {
  plan.adapter = p.adapter;
}

}  // namespace

Strategy adapter() {
  return {"adapter", {"adapter"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
