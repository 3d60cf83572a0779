// Kept activations in host memory until their backward: of whole layers (Transformer Engine's cpu_offload, Megatron's
// --cpu-offloading-num-layers), or of parts of layers (Megatron-Core's --fine-grained-activation-offloading).
#include <algorithm>

#include "strategies/routing.h"
#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kOnDevice = one_of("offload_activations", "none");

bool has_norms_before(const ModelSpec& m) {
  return !m.any_layer(
      [](const ModelParts& l) { return l.norm_place == NormPlace::post || l.norm_place == NormPlace::output; });
}

// Parts that the model does not have, and such as keep nothing because a backward makes it again.
MaybeFault refuse_parts(const Point& p, const std::string& name) {
  using enum OffloadedPart;
  const OffloadedParts parts = p.offload_activations.parts;
  const Regions& regions = p.recompute.regions;
  const bool experts = parts.has(expert_fc1) || parts.has(moe_act), norms = parts.has(attn_norm) || parts.has(mlp_norm);
  if (experts && p.model.experts == 0)
    return infeasible({one_of("offload_activations", "core_attn|none")}, "offload_activations {} of {} without experts",
                      name, p.model.name);
  if (norms && !has_norms_before(p.model))
    return not_built_in({one_of("offload_activations", "core_attn|none"), one_of("model.norm_place", "pre")},
                        "offload_activations {} with norm_place {}", name, name_of(p.model.parts().norm_place));
  if (p.model.parts().branches != Branches::sequential)
    return not_built_in({one_of("offload_activations", "layers:1|none"), one_of("model.branches", "sequential")},
                        "offload_activations {} of branches that run in parallel", name);
  if (p.model.has_state_mixers() || !p.model.hybrid_pattern.empty())
    return not_built_in({one_of("offload_activations", "layers:1|none")},
                        "offload_activations {} of layers with state mixers or a hybrid_pattern", name);
  const std::string recompute = name_of(p.recompute);
  if (regions.has(Region::layer) || regions.has(Region::alternate_gemms))
    return infeasible({one_of("offload_activations", "layers:1|none"), one_of("recompute", "none|selective")},
                      "offload_activations {} with recompute {}, which keeps other tensors of a layer", name,
                      recompute);
  if (regions.has(Region::moe) && experts)
    return infeasible({one_of("recompute", "-moe+moe_act"), kOnDevice},
                      "offload_activations {} with recompute {}, which keeps nothing within experts", name, recompute);
  if (regions.has(Region::norm) && parts.has(qkv_linear) && p.model.parts().attention_form != AttentionForm::latent)
    return infeasible({one_of("recompute", "-norm"), one_of("offload_activations", "core_attn|none")},
                      "offload_activations {} with recompute {}, which makes the input of linear layers again", name,
                      recompute);
  return std::nullopt;
}

MaybeFault refuse_layers(const Point& p) {
  // What the pipeline refuses it says itself.
  if (pipeline().why_not(p)) return std::nullopt;
  const PipelineLayout stages = stages_of(p);
  const std::int64_t most = std::ranges::max_element(stages, {}, &StageParts::layers)->layers;
  if (p.offload_activations.layers <= most) return std::nullopt;
  return infeasible({one_of("offload_activations", "layers:1|none")},
                    "offload_activations layers:{} of chunks with at most {} layers", p.offload_activations.layers,
                    most);
}

MaybeFault refuse(const Point& p) {
  if (!p.offload_activations.any()) {
    if (p.min_offloaded_tensor_size == 0) return std::nullopt;
    return infeasible({exactly("min_offloaded_tensor_size", 0)},
                      "min_offloaded_tensor_size {} with offload_activations none", p.min_offloaded_tensor_size);
  }
  const std::string name = name_of(p.offload_activations);
  if (p.replicas == Replicas::single_process)
    return not_built_in({one_of("replicas", "ranks"), kOnDevice}, "offload_activations {} with replicas single_process",
                        name);
  if (p.capture.any())
    return not_built_in({one_of("capture", "false"), kOnDevice}, "offload_activations {} with capture {}", name,
                        name_of(p.capture));
  if (p.overlap_moe)
    return not_built_in({one_of("overlap_moe", "false"), kOnDevice},
                        "offload_activations {} with overlap_moe, whose micro batches take turns,", name);
  return p.offload_activations.layers > 0 ? refuse_layers(p) : refuse_parts(p, name);
}

// Those that free most for the bytes that they move, and then more. Each takes time of copies: so only for searches that ask.
std::vector<Choice> choices(const Point& p, std::int64_t) {
  std::vector<nlohmann::json> values = {"none"};
  const Regions& regions = p.recompute.regions;
  const bool parts = p.model.parts().branches == Branches::sequential && !p.model.has_state_mixers() &&
                     p.model.hybrid_pattern.empty() && !regions.has(Region::layer) &&
                     !regions.has(Region::alternate_gemms);
  if (parts) {
    values.push_back("core_attn+attn_proj");
    const bool experts = p.model.experts > 0 && !regions.has(Region::moe);
    if (experts) {
      values.push_back("moe_act");
      values.push_back("expert_fc1+moe_act");
      values.push_back("core_attn+attn_proj+expert_fc1+moe_act");
    }
    if (has_norms_before(p.model))
      values.push_back(std::string("attn_norm+core_attn+attn_proj+mlp_norm") + (experts ? "+expert_fc1+moe_act" : ""));
  }
  if (!pipeline().why_not(p)) {
    const PipelineLayout stages = stages_of(p);
    const std::int64_t most = std::ranges::max_element(stages, {}, &StageParts::layers)->layers;
    for (const std::int64_t n : {most / 2, most - 1})
      if (const nlohmann::json value = fmt::format("layers:{}", n);
          n > 0 && std::ranges::find(values, value) == values.end())
        values.push_back(value);
  }
  return {{"offload_activations", std::move(values), true}};
}

void write(const Point& p, Plan& plan) {
  plan.offloaded = p.offload_activations;
  plan.min_offloaded_elements = p.min_offloaded_tensor_size;
}

}  // namespace

Strategy activation_offload() {
  return {"activation offload", {"offload_activations", "min_offloaded_tensor_size"}, refuse, choices, write};
}

}  // namespace mbench::strategies
