// Activation recomputation. Full (Chen et al. 2016): of every layer only the input is kept. Selective
// (Korthikanti et al. 2022): only the attention core, whose scores grow with the square of the sequence, is
// computed again. Or any regions of a layer (Megatron-Core's --recompute-modules), in all layers or in the first ones of each
// chunk (Megatron's --recompute-method block).
#include <algorithm>

#include "strategies/routing.h"
#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// The order of products is known of one kind of layer: queries, keys, values and their output, gates, ups and their output.
MaybeFault bad_products(const Point& p) {
  const ModelParts parts = p.model.parts();
  const auto of = [](const Way& way, std::string_view what) {
    return not_built_in({way, one_of("recompute", "selective|full")}, "recompute alternate_products of layers with {}",
                        what);
  };
  if (p.model.has_state_mixers() || !p.model.hybrid_pattern.empty())
    return of(one_of("recompute", "full"), "state mixers or a hybrid_pattern");
  if (p.model.any_layer([](const ModelParts& layer) { return layer.attention_gate; }))
    return of(one_of("model.attention_gate", "false"), "a gate on attention's output");
  if (p.model.experts > 0) return of(one_of("recompute", "moe"), "experts");
  if (parts.attention_form == AttentionForm::latent) return of(one_of("recompute", "mla_up_proj"), "latent attention");
  if (parts.activation != Activation::swiglu)
    return of(one_of("model.activation", "swiglu"), fmt::format("activation {}", name_of(parts.activation)));
  if (p.model.any_layer([](const ModelParts& layer) { return layer.norm_place != NormPlace::pre; }))
    return of(one_of("model.norm_place", "pre"), fmt::format("norm_place {}", name_of(parts.norm_place)));
  if (parts.branches != Branches::sequential)
    return of(one_of("model.branches", "sequential"), fmt::format("branches {}", name_of(parts.branches)));
  if (parts.multipliers != Multipliers()) return of(one_of("recompute", "full"), "multipliers");
  if (parts.bias) return of(one_of("model.bias", "false"), "biases");
  if (p.model.any_layer([](const ModelParts& layer) { return layer.qk_norm != QkNorm::none; }))
    return of(one_of("model.qk_norm", "false"), "norms of queries and keys");
  if (p.fp8_parameters)
    return of(one_of("precision.fp8_parameters", "false"), "weights in FP8 only, whose rows are not separated,");
  if (p.model.kv_heads % p.tp != 0)
    return of(divisor("tp", p.model.kv_heads),
              fmt::format("{} key and value heads over tp {}", p.model.kv_heads, p.tp));
  if (p.cp > 1 && p.cp_communication == CpCommunication::all_to_all)
    return of(one_of("cp_communication", "ring|all_gather"),
              "cp_communication all_to_all, whose attention core keeps keys,");
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  const Regions& regions = p.recompute.regions;
  const auto nothing = [&](std::string_view region, std::string_view of, std::string_view instead) {
    return infeasible({one_of("recompute", instead)}, "recompute {} of {} without {}", region, p.model.name, of);
  };
  if (regions.has(Region::mla_up_proj) && p.model.parts().attention_form != AttentionForm::latent)
    return nothing("mla_up_proj", "latent attention", "-mla_up_proj+core_attention");
  if (regions.has(Region::mla_up_proj) && !regions.has(Region::core_attention) && p.cp > 1 &&
      p.cp_communication == CpCommunication::all_to_all)
    return infeasible({one_of("recompute", "+core_attention"), one_of("cp_communication", "ring|all_gather")},
                      "recompute mla_up_proj with cp_communication all_to_all, whose attention core keeps what the "
                      "up-projections made");
  if (regions.has(Region::moe) && p.model.experts == 0) return nothing("moe", "experts", "-moe+mlp");
  if (regions.has(Region::moe_act) && p.model.experts == 0) return nothing("moe_act", "experts", "-moe_act+mlp");
  if (regions.has(Region::mlp) && !has_dense(p.model)) return nothing("mlp", "dense layers", "-mlp+moe");
  const auto place = [&](NormPlace norms) {
    return p.model.any_layer([=](const ModelParts& layer) { return layer.norm_place == norms; });
  };
  if (regions.has(Region::norm) && place(NormPlace::post))
    return infeasible({one_of("model.norm_place", "pre"), one_of("recompute", "-norm")},
                      "recompute norm with norm_place post, whose output is the next branch's input");
  if (regions.has(Region::norm) && place(NormPlace::output))
    return infeasible({one_of("model.norm_place", "pre"), one_of("recompute", "-norm")},
                      "recompute norm with norm_place output: no branch reads a norm's output");
  if (regions.has(Region::alternate_gemms))
    if (auto bad = bad_products(p)) return bad;
  if (p.recompute_layers == 0) return std::nullopt;
  if (p.recompute == Recompute::none)
    return infeasible({one_of("recompute", "full|selective"), exactly("recompute_layers", 0)},
                      "recompute_layers {} with recompute none", p.recompute_layers);
  // What the pipeline refuses it says itself.
  if (pipeline().why_not(p)) return std::nullopt;
  const PipelineLayout stages = stages_of(p);
  const std::int64_t most = std::ranges::max_element(stages, {}, &StageParts::layers)->layers;
  if (p.recompute_layers > most)
    return infeasible({within("recompute_layers", 0, most)}, "recompute_layers {} of chunks with at most {} layers",
                      p.recompute_layers, most);
  return std::nullopt;
}

std::vector<Choice> choices(const Point&, std::int64_t) {
  return {{"recompute", {"none", "selective", "full"}}};
}

// After the pipeline has cut the layers into chunks.
void write(const Point& p, Plan& plan) {
  plan.recompute.assign(static_cast<std::size_t>(p.model.layers + p.model.mtp_layers), p.recompute.regions);
  if (p.recompute_layers == 0) return;
  for (const auto& stage : plan.chunks)
    for (const ChunkPlan& chunk : stage)
      for (std::int64_t i = p.recompute_layers; i < chunk.layers; ++i)
        plan.recompute[static_cast<std::size_t>(chunk.first_layer + i)] = Regions();
}

}  // namespace

Strategy recompute() {
  return {"recompute", {"recompute", "recompute_layers", "strategy"}, refuse, choices, write};
}

}  // namespace mbench::strategies
