#include "engine/nn/layers/mixer.h"

#include "engine/nn/attention/attention.h"
#include "engine/nn/attention/latent_attention.h"
#include "engine/nn/layers/lightning.h"
#include "engine/nn/layers/mlp.h"
#include "engine/nn/layers/selective_mixer.h"
#include "engine/nn/layers/short_conv.h"
#include "engine/nn/layers/state_mixer.h"
#include "engine/nn/moe/moe.h"

namespace mbench::nn {

void Mixer::keep_alternate_gemms(Saved&) const {
  fail(ErrorKind::internal, "recompute", "alternate_products of a mixer that has no order of GEMMs");
}

Tensor Mixer::make_others(Context&, const MicroBatch&, Tensor, Saved&, bool) const {
  fail(ErrorKind::internal, "recompute", "alternate_products of a mixer that has no order of GEMMs");
}

bool drops_mixer(const BranchSpec& branch, Regions drop) {
  return (std::holds_alternative<MlpSpec>(branch.mixer) && drop.has(Region::mlp)) ||
         (std::holds_alternative<MoeSpec>(branch.mixer) && drop.has(Region::moe));
}

std::unique_ptr<Mixer> make_mixer(ParameterStore& store, const Plan& plan, const BranchSpec& branch, Regions drop) {
  if (const auto* attention = std::get_if<AttentionSpec>(&branch.mixer))
    return std::make_unique<Attention>(store, plan, *attention, drop);
  if (const auto* attention = std::get_if<LatentAttentionSpec>(&branch.mixer))
    return std::make_unique<LatentAttention>(store, plan, *attention, drop);
  if (const auto* state = std::get_if<StateMixerSpec>(&branch.mixer)) {
    if (state->kind == MixerKind::mamba) return std::make_unique<SelectiveMixer>(store, plan, *state, drop);
    return std::make_unique<StateMixer>(store, plan, *state, drop);
  }
  if (const auto* lightning = std::get_if<LightningSpec>(&branch.mixer))
    return std::make_unique<Lightning>(store, plan, *lightning, drop);
  if (const auto* conv = std::get_if<ShortConvSpec>(&branch.mixer))
    return std::make_unique<ShortConv>(store, plan, *conv, drop);
  if (const auto* mlp = std::get_if<MlpSpec>(&branch.mixer)) return std::make_unique<Mlp>(store, plan, *mlp, drop);
  return std::make_unique<Moe>(store, plan, std::get<MoeSpec>(branch.mixer), drop);
}

}  // namespace mbench::nn
