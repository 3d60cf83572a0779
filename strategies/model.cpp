// The model: sizes that fit one another, and parts that the engine has modules for. Vocabulary and training as the spec
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
  // Masks are made by the objective: words to come are hidden where the next one is predicted, padding where masked ones are.
  const bool next_token = parts.objective == Objective::next_token;
  if (parts.causal != next_token)
    return missing("causal", parts.causal ? "true with masked words" : "false with next_token",
                   next_token ? "causal true" : "causal false");
  return std::nullopt;
}

// Sizes of heads, of which each form of attention has its own.
MaybeRefusal refuse_heads(const ModelSpec& m) {
  const bool rotary = m.parts().position == PositionKind::rotary;
  struct Size {
    std::string_view name;
    std::int64_t value;
  };
  const Size latent[] = {{"kv_lora_rank", m.kv_lora_rank},
                         {"qk_nope_head_dim", m.qk_nope_head_dim},
                         {"qk_rope_head_dim", m.qk_rope_head_dim},
                         {"v_head_dim", m.v_head_dim},
                         {"q_lora_rank", m.q_lora_rank}};
  if (m.parts().attention_form == AttentionForm::latent) {
    for (const Size& size : latent)
      if (size.value == 0 && size.name != "q_lora_rank")
        return infeasible("attention_form latent without {}, need one of at least {}", size.name,
                          size.name == "qk_rope_head_dim" ? 2 : 1);
    if (m.head_size != 0)
      return infeasible(
          "head_dim {} with attention_form latent, need qk_nope_head_dim, qk_rope_head_dim and "
          "v_head_dim alone",
          m.head_size);
    if (m.kv_heads != 0 && m.kv_heads != m.heads)
      return infeasible("kv_heads {} with attention_form latent, need {}, as many as heads", m.kv_heads,
                        m.heads);
    if (rotary && m.qk_rope_head_dim % 2 != 0)
      return infeasible(
          "rotary positions turn pairs of columns, got qk_rope_head_dim {}, need an even one, {}",
          m.qk_rope_head_dim, nearest_multiples(m.qk_rope_head_dim, 2));
    return std::nullopt;
  }
  for (const Size& size : latent)
    if (size.value != 0)
      return infeasible("{} {} with attention_form multi_head, need 0 or attention_form latent", size.name,
                        size.value);
  if (m.head_size == 0 && m.hidden % m.heads != 0)
    return infeasible("heads {} does not divide hidden {}, need {}", m.heads, m.hidden,
                      nearest_divisors(m.heads, m.hidden));
  if (m.kv_heads > 0 && m.heads % m.kv_heads != 0)
    return infeasible("kv_heads {} does not divide heads {}, need {}", m.kv_heads, m.heads,
                      nearest_divisors(m.kv_heads, m.heads));
  if (rotary && m.head_dim() % 2 != 0)
    return infeasible("rotary positions turn pairs of columns, got head_dim {}, need an even one, {}",
                      m.head_dim(), nearest_multiples(m.head_dim(), 2));
  return std::nullopt;
}

MaybeRefusal refuse(const Point& p) {
  const ModelSpec& m = p.model;
  if (const MaybeRefusal heads = refuse_heads(m)) return heads;
  if (p.seq > m.positions)
    return infeasible(
        "seq {} is longer than the {} positions of {}, need at most {} or a model with more positions", p.seq,
        m.positions, m.name, m.positions);
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
