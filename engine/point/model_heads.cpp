#include "engine/point/model_heads.h"

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace mbench {
namespace {

struct LatentSize {
  std::string_view key;
  std::int64_t ModelSpec::*field;
  std::int64_t least;  // with latent attention
};
constexpr LatentSize kLatent[] = {{"kv_lora_rank", &ModelSpec::kv_lora_rank, 1},
                                  {"qk_nope_head_dim", &ModelSpec::qk_nope_head_dim, 1},
                                  {"qk_rope_head_dim", &ModelSpec::qk_rope_head_dim, 2},
                                  {"v_head_dim", &ModelSpec::v_head_dim, 1},
                                  {"q_lora_rank", &ModelSpec::q_lora_rank, 0}};

void check_even(std::int64_t columns, const std::string& where) {
  if (columns % 2 != 0)
    fail(ErrorKind::bad_input, where, "rotary positions turn pairs of columns, got {}, need an even number, {}",
         columns, nearest_multiples(columns, 2));
}

// Longrope has a factor for each pair of rotated columns of a head of that width.
void check_pairs(const ModelSpec& m, std::int64_t head_dim, const std::string& where) {
  const auto check = [&](const ModelParts& parts) {
    if (parts.rope.scaling != RopeScaling::longrope) return;
    const std::int64_t pairs = parts.rope.turned(head_dim) / 2;
    for (const auto& [key, factors] :
         {std::pair("short_factors", &parts.rope.short_factors), {"long_factors", &parts.rope.long_factors}})
      if (static_cast<std::int64_t>(factors->size()) != pairs)
        fail(ErrorKind::bad_input, fmt::format("{}.rope.scaling.{}", where, key),
             "a factor for each pair of a head's rotated columns, got {}, need {}", factors->size(), pairs);
  };
  check(m.parts());
  for (const LayerRule& rule : m.layers_of) check(rule.parts);
}

void check_latent(const ModelSpec& m, const std::string& where) {
  for (const LatentSize& size : kLatent)
    if (m.*size.field < size.least)
      fail(ErrorKind::bad_input, fmt::format("{}.{}", where, size.key),
           "of attention_form latent, got {}, need at least {}", m.*size.field, size.least);
  if (m.head_size != 0)
    fail(ErrorKind::bad_input, where + ".head_dim",
         "with attention_form latent, got {}, need only qk_nope_head_dim, qk_rope_head_dim and v_head_dim",
         m.head_size);
  if (m.kv_heads != 0 && m.kv_heads != m.heads)
    fail(ErrorKind::bad_input, where + ".kv_heads", "with attention_form latent, got {}, need {}, as many as heads",
         m.kv_heads, m.heads);
  check_even(m.qk_rope_head_dim, where + ".qk_rope_head_dim");
  check_pairs(m, m.qk_rope_head_dim, where);
}

struct StateSize {
  std::string_view key;
  std::int64_t ModelSpec::*field;
};
// Of the first Mamba's scan (engine/ops/selective_scan.h).
constexpr std::int64_t kSelectiveStates = 256, kSelectiveChunk = 64;
constexpr StateSize kState[] = {{"state_heads", &ModelSpec::state_heads},
                                {"state_head_dim", &ModelSpec::state_head_dim},
                                {"state_groups", &ModelSpec::state_groups},
                                {"state_dim", &ModelSpec::state_dim}};

void check_state(const ModelSpec& m, const std::string& where) {
  const bool mixes = m.has_scans();
  for (const StateSize& size : kState)
    if ((m.*size.field > 0) != mixes)
      fail(ErrorKind::bad_input, fmt::format("{}.{}", where, size.key), "of layers {} scans, got {}, need {}",
           mixes ? "with" : "without", m.*size.field, mixes ? "at least 1" : "0");
  if (mixes && m.state_heads % m.state_groups != 0)
    fail(ErrorKind::bad_input, where + ".state_groups", "does not divide state_heads {}, got {}, need {}",
         m.state_heads, m.state_groups, nearest_divisors(m.state_groups, m.state_heads));
  const bool selective = m.mixes(MixerKind::mamba);
  if ((m.dt_rank > 0) != selective)
    fail(ErrorKind::bad_input, where + ".dt_rank", "of layers {} mixer mamba, got {}, need {}",
         selective ? "with" : "without", m.dt_rank, selective ? "at least 1" : "0");
  if (!selective) return;
  if (m.state_head_dim != 1)
    fail(ErrorKind::bad_input, where + ".state_head_dim", "of mixer mamba, whose heads are channels, got {}, need 1",
         m.state_head_dim);
  for (const auto& [key, got, most] :
       {std::tuple("state_dim", m.state_dim, kSelectiveStates), {"state_chunk", m.state_chunk, kSelectiveChunk}})
    if (got > most)
      fail(ErrorKind::bad_input, fmt::format("{}.{}", where, key), "of mixer mamba, got {}, need at most {}", got,
           most);
}

}  // namespace

void check_heads(const ModelSpec& m, const std::string& where) {
  check_state(m, where);
  if (!m.mixes(MixerKind::attention)) return;  // its heads are nobody's
  if (m.parts().attention_form == AttentionForm::latent) return check_latent(m, where);
  for (const LatentSize& size : kLatent)
    if (m.*size.field != 0)
      fail(ErrorKind::bad_input, fmt::format("{}.{}", where, size.key),
           "with attention_form multi_head, got {}, need 0, or attention_form latent", m.*size.field);
  if (m.head_size == 0 && m.hidden % m.heads != 0)
    fail(ErrorKind::bad_input, where + ".heads", "does not divide hidden {}, got {}, need {}, or head_dim too",
         m.hidden, m.heads, nearest_divisors(m.heads, m.hidden));
  if (m.kv_heads > 0 && m.heads % m.kv_heads != 0)
    fail(ErrorKind::bad_input, where + ".kv_heads", "does not divide heads {}, got {}, need {}", m.heads, m.kv_heads,
         nearest_divisors(m.kv_heads, m.heads));
  if (m.parts().position == PositionKind::rotary) check_even(m.head_dim(), where + ".head_dim");
  check_pairs(m, m.head_dim(), where);
  if (m.head_dim() % 2 != 0 && m.any_layer([](const ModelParts& l) { return l.attention_temperature.scale > 0; }))
    fail(ErrorKind::bad_input, where + ".head_dim", "attention_temperature scales pairs of columns, got {}, need {}",
         m.head_dim(), nearest_multiples(m.head_dim(), 2));
}

}  // namespace mbench
