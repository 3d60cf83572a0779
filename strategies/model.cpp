// The model: parts that the engine has modules for; its sizes were held to one another where it was read (spec/model_heads.h). Vocabulary and training as the spec
// gives them.
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

// Branches that run side by side: attention and a feed-forward block, or attention and a state mixer.
template <class F>
MaybeFault missing_arrangement(const ModelSpec& m, const F& missing) {
  const Branches branches = m.parts().branches;
  const auto refuse = [&](std::string_view with) {
    return missing({one_of("model.branches", "sequential")}, "branches",
                   fmt::format("{} with {}", name_of(branches), with));
  };
  if (branches == Branches::sequential) return std::nullopt;
  if (branches != Branches::parallel_mixers) {
    if (m.has_state_mixers() || !m.hybrid_pattern.empty()) return refuse("state mixers or a hybrid_pattern");
    return std::nullopt;
  }
  if (!m.hybrid_pattern.empty()) return refuse("a hybrid_pattern");
  for (std::int64_t layer = 0; layer < m.layers + m.mtp_layers; ++layer)
    if (m.mixer_at(layer) == MixerKind::attention) return refuse("a layer without a state mixer");
  return std::nullopt;
}

// Factors where no op multiplies.
template <class F>
MaybeFault missing_factors(const ModelSpec& m, const F& missing) {
  const ModelParts& parts = m.parts();
  const Multipliers& f = parts.multipliers;
  if (f == Multipliers()) return std::nullopt;
  const auto refuse = [&](std::string_view why) {
    return missing({one_of("model.multipliers", "{}")}, "multipliers", why);
  };
  if (parts.bias.any()) return refuse("with biases");
  if (m.any_layer([](const ModelParts& l) { return l.norm_place != NormPlace::pre; }))
    return refuse("with norms behind branches");
  if (f.gates != 1 && (!is_gated(parts.activation) || m.experts > 0))
    return refuse("of gates, which experts or the activation lack");
  if (f.state_inputs != Multipliers().state_inputs && !m.mixes(MixerKind::mamba2))
    return refuse("of a state mixer's inputs without mixer mamba2");
  return std::nullopt;
}

// The first part of the model that no module of engine/nn or engine/model makes.
MaybeFault missing_part(const ModelSpec& m) {
  const ModelParts& parts = m.parts();
  const auto missing = [&](std::initializer_list<Way> ways, std::string_view field, std::string_view got) {
    return not_built_in(ways, "{} {} (model {}, family {})", field, got, m.name, m.family);
  };
  const auto any = [&](auto&& has) { return m.any_layer(has); };
  const bool states = m.has_state_mixers();
  if (const MaybeFault fault = missing_arrangement(m, missing)) return fault;
  if (states && !parts.causal)
    return missing({one_of("model.causal", "true"), one_of("model.mixer", "attention")}, "causal",
                   "false with state mixers, which see only what was before");
  if (m.mixes(MixerKind::lightning) && m.mtp_layers > 0)
    return missing({exactly("model.mtp_layers", 0)}, "mtp_layers",
                   "behind lightning attention, whose decays end with the model");
  if (parts.attention_form == AttentionForm::latent && any([](const ModelParts& l) { return l.attention_gate; }))
    return missing({one_of("model.attention_gate", "false"), one_of("model.attention_form", "multi_head")},
                   "attention_gate", "true with attention_form latent");
  if (parts.attention_form == AttentionForm::latent) {
    constexpr Way plain = one_of("model.attention_form", "multi_head");
    if (any([](const ModelParts& l) { return l.qk_norm != QkNorm::none; }))
      return missing({one_of("model.qk_norm", "false"), plain}, "qk_norm", "true with attention_form latent");
    if (any([](const ModelParts& l) { return l.window > 0; }))
      return missing({exactly("model.window", 0), plain}, "window", "with attention_form latent");
    if (any([](const ModelParts& l) { return l.attention_chunk > 0; }))
      return missing({exactly("model.attention_chunk", 0), plain}, "attention_chunk", "with attention_form latent");
    if (any([](const ModelParts& l) { return l.attention_temperature.scale > 0; }))
      return missing({plain}, "attention_temperature", "with attention_form latent");
    if (any([](const ModelParts& l) { return l.attention_softcap > 0 || l.attention_sinks; }))
      return missing({plain}, "attention_softcap or attention_sinks", "with attention_form latent");
    if (any([](const ModelParts& l) { return l.position == PositionKind::alibi; }))
      return missing({one_of("model.position", "rotary"), plain}, "position", "alibi with attention_form latent");
    if (parts.branches != Branches::sequential)
      return missing({one_of("model.branches", "sequential"), plain}, "branches",
                     fmt::format("{} with attention_form latent", name_of(parts.branches)));
  }
  if (parts.branches != Branches::sequential) {
    if (any([](const ModelParts& l) { return l.norm_place != NormPlace::pre; }))
      return missing({one_of("model.norm_place", "pre"), one_of("model.branches", "sequential")}, "branches",
                     fmt::format("{} with norm_place {}", name_of(parts.branches), name_of(parts.norm_place)));
    if (m.experts > 0 && parts.branches != Branches::parallel_mixers)
      return missing({one_of("model.branches", "sequential")}, "branches",
                     fmt::format("{} with experts", name_of(parts.branches)));
  }
  if (const MaybeFault fault = missing_factors(m, missing)) return fault;
  // A norm behind the sum is the next branch's, which the ends of the model know of.
  if (m.any_layer([&](const ModelParts& l) {
        return (l.norm_place == NormPlace::post) != (parts.norm_place == NormPlace::post);
      }))
    return missing({one_of("model.norm_place", "pre")}, "norm_place", "post of some layers only");
  if (m.experts > 0 && parts.activation == Activation::xielu)
    return missing({one_of("model.activation", "silu")}, "activation", fmt::format("xielu with {} experts", m.experts));
  if (!parts.causal && any([](const ModelParts& l) { return l.window > 0; }))
    return missing({exactly("model.window", 0), one_of("model.causal", "true")}, "window",
                   "of attention that is not causal");
  if (!parts.causal && any([](const ModelParts& l) { return l.attention_chunk > 0; }))
    return missing({exactly("model.attention_chunk", 0), one_of("model.causal", "true")}, "attention_chunk",
                   "of attention that is not causal");
  if (m.mtp_layers > 0 && m.labels > 0)
    return infeasible({exactly("model.mtp_layers", 0), exactly("model.labels", 0)},
                      "mtp_layers {} with {} labels, and no words to predict", m.mtp_layers, m.labels);
  if (m.mtp_layers > 0 && parts.norm_place == NormPlace::post)
    return missing({exactly("model.mtp_layers", 0), one_of("model.norm_place", "pre")}, "mtp_layers",
                   fmt::format("{} with norm_place post", m.mtp_layers));
  if (m.mtp_layers > 0 && parts.objective != Objective::next_token)
    return missing({exactly("model.mtp_layers", 0), one_of("model.objective", "next_token")}, "mtp_layers",
                   fmt::format("{} with objective {}", m.mtp_layers, name_of(parts.objective)));
  // Masks are made by the objective: words to come are hidden where the next one is predicted, padding where masked ones are.
  if (parts.causal && parts.objective != Objective::next_token)
    return missing({one_of("model.causal", "false")}, "causal", "true with masked words");
  return std::nullopt;
}

// States would go on from one document to the next, and words are masked in one sentence or two.
MaybeFault missing_of_documents(const Point& p) {
  constexpr Way kWhole = one_of("document_lengths", "none");
  if (!p.document_lengths.on()) return std::nullopt;
  if (p.model.labels > 0)
    return infeasible({kWhole, exactly("model.labels", 0)}, "document_lengths {} with {} labels, one for each sample",
                      str(p.document_lengths), p.model.labels);
  if (p.model.has_state_mixers())
    return not_built_in({kWhole}, "document_lengths {} with state mixers (model {})", str(p.document_lengths),
                        p.model.name);
  if (p.model.parts().objective != Objective::next_token)
    return not_built_in({kWhole}, "document_lengths {} with objective {}", str(p.document_lengths),
                        name_of(p.model.parts().objective));
  return std::nullopt;
}

// What only fused attention without kept probabilities computes; and what is cut in a way that no module has.
MaybeFault missing_of_layout(const Point& p) {
  const ModelSpec& m = p.model;
  struct Bent {
    const char* what;
    bool (*has)(const ModelParts&);
  };
  static constexpr Bent kBent[] = {
      {"a window", [](const ModelParts& l) { return l.window > 0; }},
      {"a softcap of scores", [](const ModelParts& l) { return l.attention_softcap > 0; }},
      {"attention sinks", [](const ModelParts& l) { return l.attention_sinks; }},
      {"position alibi", [](const ModelParts& l) { return l.position == PositionKind::alibi; }}};
  for (const Bent& bent : kBent)
    if (p.attention != AttentionKind::flash && m.any_layer(bent.has))
      return not_built_in({one_of("attention", "flash")}, "attention {} with {} (model {})", name_of(p.attention),
                          bent.what, m.name);
  const std::int64_t kv_heads = m.kv_heads == 0 ? m.heads : m.kv_heads;
  if (kv_heads % p.tp != 0 && m.any_layer([](const ModelParts& l) { return l.attention_gate; }))
    return not_built_in({divisor("tp", kv_heads)}, "attention_gate of {} key and value heads over tp {}", kv_heads,
                        p.tp);
  const auto whole_groups = [](const ModelParts& l) {
    return l.qk_norm == QkNorm::all_heads || l.qk_norm == QkNorm::layer_norm_by_head;
  };
  if (kv_heads % p.tp != 0 && m.any_layer(whole_groups))
    return not_built_in({divisor("tp", kv_heads)},
                        "qk_norm all_heads or layer_norm_by_head of {} key and value heads over tp {}", kv_heads, p.tp);
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
  if (auto fault = missing_part(m)) return fault;
  if (auto fault = missing_of_documents(p)) return fault;
  return missing_of_layout(p);
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
                   .clip_grad = p.clip_grad,
                   .documents = documents_of(p.document_lengths, p.seq, p.seed),
                   .reset_positions = p.reset_positions};
}

}  // namespace

Strategy model() {
  return {"model",
          {"model", "vocab_multiple", "seq", "document_lengths", "reset_positions", "seed", "dropout", "learning_rate",
           "lr_warmup", "weight_decay", "clip_grad"},
          refuse,
          nullptr,
          write};
}

}  // namespace mbench::strategies
