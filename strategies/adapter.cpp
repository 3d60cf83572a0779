// Low-rank adapters (engine/point/adapter.h): which weights are trained. How an adapter is cut follows from the layer that it belongs to
// (engine/nn/linear/adapter.h).
#include <algorithm>

#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNone = one_of("adapter", "none");
constexpr std::int64_t kBlock = 64;  // of NF4

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

// The columns of the weights of a layer's linear parts, as a rank has them.
std::vector<std::int64_t> columns_of(const LayerSpec& layer, const Point& p) {
  std::vector<std::int64_t> columns;
  const auto add = [&](const LinearSpec& l) {
    columns.push_back(l.role == Role::row ? l.in / p.tp : l.role == Role::expert_row ? l.in / p.expert_tp() : l.in);
  };
  const auto add_block = [&](const MlpSpec& m) { add(m.fc1), add(m.fc2); };
  for (const BranchSpec& branch : layer.branches) {
    if (const auto* a = std::get_if<AttentionSpec>(&branch.mixer)) add(a->qkv), add(a->proj);
    if (const auto* s = std::get_if<StateMixerSpec>(&branch.mixer)) add(s->in), add(s->out);
    if (const auto* s = std::get_if<ShortConvSpec>(&branch.mixer)) add(s->in), add(s->out);
    if (const auto* s = std::get_if<LightningSpec>(&branch.mixer)) add(s->in), add(s->out);
    if (const auto* m = std::get_if<MlpSpec>(&branch.mixer)) add_block(*m);
    if (const auto* m = std::get_if<MoeSpec>(&branch.mixer)) {
      add_block(m->expert);
      if (m->shared) add_block(*m->shared);
    }
  }
  return columns;
}

// What a base in 4 bits does not go with.
MaybeFault refuse_base(const Point& p, const std::string& adapter) {
  if (quantises(p.precision))
    return not_built_in({kNone, one_of("precision", "bf16|fp16|f32")}, "{} with precision {}", adapter,
                        name_of(p.precision));
  const std::int64_t kv_heads = p.model.kv_heads == 0 ? p.model.heads : p.model.kv_heads;
  if (p.adapter.base == FrozenBase::nf4_double && p.model.mixes(MixerKind::attention) && kv_heads % p.tp != 0)
    return infeasible({kNone, divisor("tp", kv_heads)},
                      "{} with tp {} and {} key and value heads: queries are another matrix than keys and values then, "
                      "and the mean of its scales another",
                      adapter, p.tp, kv_heads);
  for (const std::int64_t layer : kinds_of_layers(p.model))
    for (const std::int64_t columns : columns_of(layer_of(p.model, layer), p))
      if (columns % kBlock != 0)
        return infeasible({kNone},
                          "{} quantises {} weights of a row together, got rows of {} on a tensor-parallel rank",
                          adapter, kBlock, columns);
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  if (!p.adapter.on()) return std::nullopt;
  const ModelSpec& m = p.model;
  const std::string adapter = "adapter " + str(p.adapter);
  if (p.adapter.in_4_bits())
    if (auto fault = refuse_base(p, adapter)) return fault;
  if (m.parts().attention_form == AttentionForm::latent)
    return not_built_in({kNone}, "{} with latent attention", adapter);
  if (m.experts > 0 && m.parts().bias.experts)
    return not_built_in({kNone}, "{} with experts that have biases", adapter);
  if (m.mtp_layers > 0)
    return not_built_in({kNone, exactly("model.mtp_layers", 0)}, "{} with mtp_layers {}", adapter, m.mtp_layers);
  const std::int64_t kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  if (targets(p, "qkv") && kv_heads % p.tp != 0)
    return not_built_in({kNone, divisor("tp", kv_heads)}, "{} of qkv with tp {} and {} key and value heads", adapter,
                        p.tp, kv_heads);
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
