// The model: parts that the engine has modules for; its sizes were held to one another where it was read (spec/model_heads.h). Vocabulary and training as the spec
// gives them.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// The first part of the model that no module of engine/nn or engine/model makes.
MaybeFault missing_part(const ModelSpec& m) {
  const ModelParts& parts = m.parts();
  const auto missing = [&](std::initializer_list<Way> ways, std::string_view field, std::string_view got) {
    return not_built_in(ways, "{} {} (model {}, family {})", field, got, m.name, m.family);
  };
  if (parts.qk_norm && parts.attention_form == AttentionForm::latent)
    return missing({one_of("model.qk_norm", "false"), one_of("model.attention_form", "multi_head")}, "qk_norm",
                   "true with attention_form latent");
  if (m.mtp_layers > 0 && parts.norm_place == NormPlace::post)
    return missing({exactly("model.mtp_layers", 0), one_of("model.norm_place", "pre")}, "mtp_layers",
                   fmt::format("{} with norm_place post", m.mtp_layers));
  if (m.mtp_layers > 0 && parts.objective != Objective::next_token)
    return missing({exactly("model.mtp_layers", 0), one_of("model.objective", "next_token")}, "mtp_layers",
                   fmt::format("{} with objective {}", m.mtp_layers, name_of(parts.objective)));
  // Masks are made by the objective: words to come are hidden where the next one is predicted, padding where masked ones are.
  const bool next_token = parts.objective == Objective::next_token;
  if (parts.causal != next_token)
    return missing({one_of("model.causal", next_token ? "true" : "false")}, "causal",
                   parts.causal ? "true with masked words" : "false with next_token");
  return std::nullopt;
}

MaybeFault refuse(const Point& p) {
  const ModelSpec& m = p.model;
  if (p.seq > m.positions)
    return infeasible({within("seq", 1, m.positions), exactly("model.positions", p.seq)},
                      "seq {} is longer than the {} positions of {}", p.seq, m.positions, m.name);
  if (p.seq <= m.mtp_layers)
    return infeasible({within("seq", m.mtp_layers + 1, m.positions), exactly("model.mtp_layers", p.seq - 1)},
                      "seq {} has no word that mtp_layers {} could predict", p.seq, m.mtp_layers);
  return missing_part(m);
}

void write(const Point& p, Plan& plan) {
  plan.model = p.model;
  plan.vocab = p.model.padded_vocab(p.tp, p.vocab_multiple_used());
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
          {"model", "vocab_multiple", "seq", "seed", "dropout", "learning_rate", "lr_warmup", "weight_decay", "clip_grad"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
