// The model: parts that the engine has modules for; its sizes were held to one another where it was read (spec/model_heads.h). Vocabulary and training as the spec
// gives them.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// The first part of the model that no module of engine/nn or engine/model makes.
MaybeRefusal missing_part(const ModelSpec& m) {
  const ModelParts& parts = m.parts();
  const auto missing = [&](std::string_view field, std::string_view got, std::string_view need) {
    return not_built_in(fmt::format("{} {} (model {}, family {})", field, got, m.name, m.family), need);
  };
  if (parts.qk_norm && parts.attention_form == AttentionForm::latent)
    return missing("qk_norm", "true with attention_form latent",
                   "qk_norm false or attention_form multi_head");
  if (m.mtp_layers > 0 && parts.norm_place == NormPlace::post)
    return missing("mtp_layers", fmt::format("{} with norm_place post", m.mtp_layers),
                   "mtp_layers 0 or norm_place pre");
  if (m.mtp_layers > 0 && parts.objective != Objective::next_token)
    return missing("mtp_layers", fmt::format("{} with objective {}", m.mtp_layers, name_of(parts.objective)),
                   "mtp_layers 0 or objective next_token");
  // Masks are made by the objective: words to come are hidden where the next one is predicted, padding where masked ones are.
  const bool next_token = parts.objective == Objective::next_token;
  if (parts.causal != next_token)
    return missing("causal", parts.causal ? "true with masked words" : "false with next_token",
                   next_token ? "causal true" : "causal false");
  return std::nullopt;
}

MaybeRefusal refuse(const Point& p) {
  const ModelSpec& m = p.model;
  if (p.seq > m.positions)
    return infeasible(
        "seq {} is longer than the {} positions of {}, need at most {} or a model with more positions", p.seq,
        m.positions, m.name, m.positions);
  if (p.seq <= m.mtp_layers)
    return infeasible("seq {} has no word that mtp_layers {} could predict, need seq of at least {}", p.seq,
                      m.mtp_layers, m.mtp_layers + 1);
  return missing_part(m);
}

void write(const Point& p, Plan& plan) {
  plan.model = p.model;
  plan.vocab = p.model.padded_vocab(p.tp);
  plan.training = {.seq = p.seq,
                   .micro_batch = p.micro_batch,
                   .micro_batches = p.micro_batches(),
                   .seed = p.seed,
                   .dropout = static_cast<float>(p.dropout),
                   .learning_rate = p.learning_rate,
                   .lr_warmup = p.lr_warmup,
                   .weight_decay = p.weight_decay,
                   .clip_grad = p.clip_grad};
}

}  // namespace

Strategy model() {
  return {"model",
          {"model", "seq", "seed", "dropout", "learning_rate", "lr_warmup", "weight_decay", "clip_grad"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
