#include "engine/nn/mixer.h"

#include "engine/nn/attention.h"
#include "engine/nn/latent_attention.h"
#include "engine/nn/mlp.h"

namespace mbench {

std::unique_ptr<Mixer> make_mixer(ParameterStore& store, const Plan& plan, const BranchSpec& branch,
                                  Regions drop) {
  if (const auto* attention = std::get_if<AttentionSpec>(&branch.mixer))
    return std::make_unique<Attention>(store, plan, *attention, drop);
  if (const auto* attention = std::get_if<LatentAttentionSpec>(&branch.mixer))
    return std::make_unique<LatentAttention>(store, plan, *attention, drop);
  if (const auto* mlp = std::get_if<MlpSpec>(&branch.mixer)) return std::make_unique<Mlp>(store, plan, *mlp);
  fail(ErrorKind::unsupported, branch.name,
       "a mixture of experts is not built into this binary, need a dense model");
}

}  // namespace mbench
