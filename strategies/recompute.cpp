// Activation recomputation. Full (Chen et al. 2016): of every layer only the input is kept. Selective
// (Korthikanti et al. 2022): only the attention core, whose scores grow with the square of the sequence, is
// computed again. Or any regions of a layer (Megatron-Core's --recompute-modules), in all layers or in the first ones of each
// chunk (Megatron's --recompute-method block).
#include <algorithm>

#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Whether any layer has a block of that kind, so that there is something to drop.
bool has_dense(const ModelSpec& m) {
  return m.experts == 0 || m.dense_layers > 0;
}

// The order of products is known of one kind of layer: queries, keys, values and their output, gates, ups and their output.
MaybeRefusal bad_products(const Point& p) {
  const ModelParts parts = p.model.parts();
  const auto of = [](std::string_view what, std::string_view need) {
    return not_built_in(fmt::format("recompute alternate_products of layers with {}", what), need);
  };
  if (p.model.experts > 0) return of("experts", "a model without experts, or recompute selective or full");
  if (parts.attention_form == AttentionForm::latent) return of("latent attention", "recompute mla_up_proj, selective or full");
  if (parts.activation != Activation::swiglu) return of(fmt::format("activation {}", name_of(parts.activation)), "activation swiglu");
  if (parts.norm_place == NormPlace::post) return of("norm_place post", "norm_place pre");
  if (parts.bias) return of("biases", "bias false");
  if (parts.qk_norm) return of("norms of queries and keys", "qk_norm false");
  if (p.fp8_parameters) return of("weights in FP8 alone, whose rows are not taken apart,", "fp8_parameters false");
  if (p.model.kv_heads % p.tp != 0)
    return of(fmt::format("{} key and value heads over tp {}", p.model.kv_heads, p.tp), "tp that divides the key and value heads");
  if (p.cp > 1 && p.cp_communication == CpCommunication::all_to_all)
    return of("cp_communication all_to_all, whose attention core keeps keys,", "ring or all_gather");
  return std::nullopt;
}

MaybeRefusal refuse(const Point& p) {
  const Regions& regions = p.recompute.regions;
  const auto nothing = [&](std::string_view region, std::string_view of, std::string_view need) {
    return infeasible("recompute {} of {} without {}, need {}", region, p.model.name, of, need);
  };
  if (regions.has(Region::mla_up_proj) && p.model.parts().attention_form != AttentionForm::latent)
    return nothing("mla_up_proj", "latent attention", "core_attention");
  if (regions.has(Region::mla_up_proj) && !regions.has(Region::core_attention) && p.cp > 1 &&
      p.cp_communication == CpCommunication::all_to_all)
    return infeasible(
        "recompute mla_up_proj with cp_communication all_to_all, whose attention core keeps what the "
        "up-projections made, need "
        "core_attention too");
  if (regions.has(Region::moe) && p.model.experts == 0) return nothing("moe", "experts", "mlp");
  if (regions.has(Region::moe_act) && p.model.experts == 0) return nothing("moe_act", "experts", "mlp");
  if (regions.has(Region::mlp) && !has_dense(p.model)) return nothing("mlp", "dense layers", "moe");
  if (regions.has(Region::norm) && p.model.parts().norm_place == NormPlace::post)
    return infeasible(
        "recompute norm with norm_place post, whose output is the next branch's input, need norm_place pre");
  if (regions.has(Region::alternate_products))
    if (const auto bad = bad_products(p)) return bad;
  if (p.recompute_layers == 0) return std::nullopt;
  if (p.recompute == Recompute::none)
    return infeasible("recompute_layers {} with recompute none, need recompute full, selective or regions",
                      p.recompute_layers);
  // What the pipeline refuses it says itself.
  if (pipeline().why_not(p)) return std::nullopt;
  const std::vector<std::int64_t> layers = layers_of_chunks(p);
  const std::int64_t most = *std::max_element(layers.begin(), layers.end());
  if (p.recompute_layers > most)
    return infeasible("recompute_layers {} of chunks with at most {} layers, need {} or fewer, or 0 for all",
                      p.recompute_layers, most, most);
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
