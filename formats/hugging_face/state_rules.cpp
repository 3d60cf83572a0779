// Configurations of models with state mixers.
#include <cmath>
#include <numeric>
#include <tuple>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"
#include "formats/table/layers.h"

namespace mbench::formats {
namespace {

constexpr std::int64_t kUnbounded = 1 << 20;  // positions, where nothing bounds them

// Every layer is a Mamba-2 mixer; attention has no sizes.
void read_mamba2(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 64);
  r.set("model.hybrid_pattern", std::string(static_cast<std::size_t>(layers), 'M'));
  r.set("model.heads", r.value("num_heads", 128));
  r.set("model.head_dim", 0);
  r.set("model.positions", kUnbounded);
  if (r.number("n_groups", 8) > 1)
    r.note("n_groups: mbench norms each group by itself, as mamba_ssm does, and transformers all of them together");
}
void write_mamba2(Writing& w) {
  const json pattern = w.at("model.hybrid_pattern");
  if (!pattern.is_string() || pattern.get<std::string>().find_first_not_of('M') != std::string::npos)
    return w.cannot("model.hybrid_pattern");
  const double inner = w.number("model.state_heads") * w.number("model.state_head_dim"),
               hidden = w.number("model.hidden");
  if (std::fmod(inner, hidden) != 0) return w.cannot("model.state_heads");
  w.put("expand", static_cast<std::int64_t>(inner / hidden));
}

// Every layer is a mixer of the first Mamba. Its channels are cut into so many parts at most, as many as a rank can have alike.
constexpr std::int64_t kMostParts = 64;
void set_channels(Reading& r, std::int64_t inner, std::int64_t hidden, const json& rank) {
  r.set("model.state_heads", inner);
  r.set("model.state_head_dim", 1);
  r.set("model.state_groups", std::gcd(inner, kMostParts));
  r.set("model.dt_rank", rank == "auto" ? json((hidden + 15) / 16) : rank);
}
void read_mamba(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32), hidden = r.whole("hidden_size", 1 << 20, 768);
  const json given = r.value("intermediate_size"), rank = r.value("time_step_rank", "auto");
  const double expanded = std::floor(r.number("expand", 2) * static_cast<double>(hidden));
  const std::int64_t inner =
      given.is_number_integer() ? given.get<std::int64_t>() : static_cast<std::int64_t>(expanded);
  set_channels(r, inner, hidden, rank);
  r.set("model.hybrid_pattern", std::string(static_cast<std::size_t>(layers), 'S'));
  r.set("model.heads", *r.get("model.state_groups"));
  r.set("model.head_dim", 0);
  r.set("model.positions", kUnbounded);
}
void write_mamba(Writing& w) {
  const json pattern = w.at("model.hybrid_pattern");
  if (!pattern.is_string() || pattern.get<std::string>().find_first_not_of('S') != std::string::npos)
    return w.cannot("model.hybrid_pattern");
  const double inner = w.number("model.state_heads"), hidden = w.number("model.hidden");
  w.put("intermediate_size", w.at("model.state_heads"));
  if (std::fmod(inner, hidden) == 0) w.put("expand", static_cast<std::int64_t>(inner / hidden));
  w.put("time_step_rank", w.at("model.dt_rank"));
}

char letter_of(const json& type) {
  if (type == "mamba" || type == "linear_attention") return 'M';
  if (type == "attention" || type == "full_attention") return '*';
  if (type == "mlp") return '-';
  if (type == "moe") return 'E';
  return '?';
}

std::string pattern_in(Reading& r) {
  const json pattern = r.value("hybrid_override_pattern");
  json types = r.value("layers_block_type");
  if (types.is_null()) types = r.value("layer_types");
  if (pattern.is_string()) return pattern.get<std::string>();
  std::string letters;
  if (types.is_array())
    for (const json& type : types) letters += letter_of(type);
  return letters.empty() ? "ME*-" : letters;
}

void read_nemotron_h(Reading& r) {
  const std::string pattern = pattern_in(r);
  r.ignore("num_hidden_layers");  // as many as letters
  if (pattern.find_first_not_of("M*-E") != std::string::npos)
    r.lack("hybrid_override_pattern", "layers of other kinds than M, *, - and E");
  r.set("model.layers", pattern.size());
  r.set("model.hybrid_pattern", pattern);
  const std::pair<const char*, json> of_experts[] = {{"n_routed_experts", 8},
                                                     {"num_experts_per_tok", 2},
                                                     {"n_shared_experts", 1},
                                                     {"moe_intermediate_size", 7688},
                                                     {"moe_latent_size", nullptr},
                                                     {"moe_shared_expert_intermediate_size", 7688},
                                                     {"routed_scaling_factor", 1},
                                                     {"norm_topk_prob", true},
                                                     {"n_group", 1},
                                                     {"topk_group", 1}};
  if (pattern.find('E') == std::string::npos) {
    for (const auto& [key, absent] : of_experts) r.ignore(key);
    if (r.number("num_nextn_predict_layers", 0) > 0) r.lack("num_nextn_predict_layers", "multi-token prediction here");
    return;
  }
  const char* fields[] = {"experts",    "active_experts",    "shared_experts", "expert_ffn",
                          "moe_latent", "shared_expert_ffn", "routing.scale",  "routing.normalise"};
  for (std::size_t i = 0; i < std::size(fields); ++i)
    if (const json value = r.value(of_experts[i].first, of_experts[i].second); !value.is_null())
      r.set(fmt::format("model.{}", fields[i]), value);
  r.set("model.routing.score", "sigmoid");
  r.set("model.routing.correction_speed", 0.001);
  const json groups = r.value("n_group", 1), chosen = r.value("topk_group", 1);
  if (groups != 1) {
    r.set("model.routing.groups", groups);
    r.set("model.routing.chosen_groups", chosen);
    r.set("model.routing.group_score", "best_two");
  }
  const json depths = r.value("num_nextn_predict_layers", 0);
  r.set("model.mtp_layers", depths);
  // Megatron-Bridge takes one depth for all where the configuration does not say.
  const bool repeats = r.value("mtp_use_repeated_layer", true) == true;
  if (repeats && depths.is_number() && depths > 1) r.set("model.mtp_use_repeated_layer", true);
}
void write_nemotron_h(Writing& w) {
  const json pattern = w.at("model.hybrid_pattern");
  if (!pattern.is_string() || pattern.get<std::string>().find('G') != std::string::npos)
    return w.cannot("model.hybrid_pattern");
  w.put("hybrid_override_pattern", pattern);
  w.put("num_hidden_layers", w.at("model.layers"));
  if (pattern.get<std::string>().find('E') == std::string::npos) return;
  for (const auto& [key, field] : {std::pair{"n_routed_experts", "model.experts"},
                                   {"num_experts_per_tok", "model.active_experts"},
                                   {"n_shared_experts", "model.shared_experts"},
                                   {"moe_intermediate_size", "model.expert_ffn"},
                                   {"moe_shared_expert_intermediate_size", "model.shared_expert_ffn"},
                                   {"routed_scaling_factor", "model.routing.scale"},
                                   {"norm_topk_prob", "model.routing.normalise"},
                                   {"num_nextn_predict_layers", "model.mtp_layers"}})
    w.put(key, w.at(field));
  if (w.number("model.mtp_layers") > 1) w.put("mtp_use_repeated_layer", w.at("model.mtp_use_repeated_layer"));
  if (const json latent = w.at("model.moe_latent"); !latent.is_null()) w.put("moe_latent_size", latent);
  const json groups = w.at("model.routing.groups");
  w.put("n_group", groups.is_null() ? json(1) : groups);
  w.put("topk_group", groups.is_null() ? json(1) : w.at("model.routing.chosen_groups"));
}

// Of so many layers the last has attention, or those of a list.
void read_qwen3_next(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 48),
                     every = r.whole("full_attention_interval", 16384, 4);
  const json types = r.value("layer_types");
  std::vector<std::int64_t> attention;
  for (std::int64_t i = 0; i < layers; ++i)
    if (types.is_array() && static_cast<std::size_t>(i) < types.size()
            ? types[static_cast<std::size_t>(i)] == "full_attention"
            : (i + 1) % every == 0)
      attention.push_back(i);
  add_layers(r, rules_of_layers(attention, layers, {{"mixer", "attention"}}));
}
void write_qwen3_next(Writing& w) {
  json types = json::array();
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  std::vector<bool> attention = layers_with(w.at("model.layers_of"), layers, "mixer", "attention");
  attention.resize(static_cast<std::size_t>(layers));
  for (const bool each : attention) types.push_back(each ? "full_attention" : "linear_attention");
  w.put("layer_types", types);
  if (w.number("model.state_chunk") != 64) w.cannot("model.state_chunk", "it is 64 there");
}

// Granite 4: mixers by a list, of Mamba-2 or attention. Experts beside a shared one, or that one alone.
void read_granite_hybrid(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32);
  json types = r.value("layer_types");
  if (types.is_null()) types = r.value("layers_block_type");
  std::vector<std::int64_t> attention;
  for (std::int64_t i = 0; i < layers; ++i)
    if (types.is_array() && static_cast<std::size_t>(i) < types.size() &&
        letter_of(types[static_cast<std::size_t>(i)]) == '*')
      attention.push_back(i);
  if (attention.size() < static_cast<std::size_t>(layers)) {
    r.set("model.mixer", "mamba2");
    for (const auto& [key, field, absent] : {std::tuple{"mamba_n_heads", "heads", 128},
                                             {"mamba_d_head", "head_dim", 64},
                                             {"mamba_n_groups", "groups", 1},
                                             {"mamba_d_state", "dim", 256}})
      r.set(fmt::format("model.state_{}", field), r.value(key, absent));
    r.set("model.conv_width", r.value("mamba_d_conv", 4));
    r.set("model.state_chunk", r.value("mamba_chunk_size", 256));
    if (!attention.empty()) add_layers(r, rules_of_layers(attention, layers, {{"mixer", "attention"}}));
  } else {
    for (const char* key :
         {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv", "mamba_chunk_size"})
      r.ignore(key);
  }
  const json shared = r.value("shared_intermediate_size", 1024), experts = r.value("num_local_experts", 8),
             width = r.value("intermediate_size", 11008);
  if (experts == 0) {
    r.set("model.family", "llama");
    r.set("model.ffn", shared);
    for (const char* key : {"num_experts_per_tok", "router_aux_loss_coef"}) r.ignore(key);
    return;
  }
  r.set("model.family", "mixtral");
  r.set("model.ffn", width);
  r.set("model.expert_ffn", width);
  r.set("model.experts", experts);
  r.set("model.active_experts", r.value("num_experts_per_tok", 2));
  r.set("model.routing.balance_loss", r.value("router_aux_loss_coef", 0.001));
  if (shared == 0) return;
  r.set("model.shared_experts", 1);
  r.set("model.shared_expert_ffn", shared);
}

void write_granite_hybrid(Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  const bool mixers = w.at("model.mixer") == "mamba2";
  std::vector<bool> attention = layers_with(w.at("model.layers_of"), layers, "mixer", "attention");
  attention.resize(static_cast<std::size_t>(layers));
  json types = json::array();
  for (const bool each : attention) types.push_back(each || !mixers ? "attention" : "mamba");
  w.put("layer_types", types);
  if (mixers)
    for (const auto& [key, field] : {std::pair{"mamba_n_heads", "model.state_heads"},
                                     {"mamba_d_head", "model.state_head_dim"},
                                     {"mamba_n_groups", "model.state_groups"},
                                     {"mamba_d_state", "model.state_dim"},
                                     {"mamba_d_conv", "model.conv_width"},
                                     {"mamba_chunk_size", "model.state_chunk"}})
      w.put(key, w.at(field));
  if (w.at("model.experts").is_null() || w.number("model.experts") == 0) {
    w.put("num_local_experts", 0);
    w.put("shared_intermediate_size", w.at("model.ffn"));
    return;
  }
  for (const auto& [key, field] : {std::pair{"intermediate_size", "model.expert_ffn"},
                                   {"num_local_experts", "model.experts"},
                                   {"num_experts_per_tok", "model.active_experts"},
                                   {"router_aux_loss_coef", "model.routing.balance_loss"}})
    w.put(key, w.at(field));
  const bool shared = w.number("model.shared_experts") > 0;
  w.put("shared_intermediate_size", shared ? w.at("model.shared_expert_ffn") : json(0));
}

// Jamba: of so many layers one has attention, and of so many one has experts.
void read_jamba(Reading& r) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 32), hidden = r.whole("hidden_size", kMost, 4096);
  const auto offset = [&](const char* key, const json& absent) {
    return static_cast<std::int64_t>(r.number(key, absent));
  };
  const std::int64_t every = r.whole("attn_layer_period", kMost, 8), first = offset("attn_layer_offset", 4);
  std::vector<std::int64_t> attention;
  for (std::int64_t i = first; i < layers; i += every) attention.push_back(i);
  add_layers(r, rules_of_layers(attention, layers, {{"mixer", "attention"}}));
  set_channels(r, static_cast<std::int64_t>(r.number("mamba_expand", 2)) * hidden, hidden,
               r.value("mamba_dt_rank", "auto"));
  r.set("model.scan_norm_eps", r.value("rms_norm_eps", 1e-6));
  const json width = r.value("intermediate_size", 14336), experts = r.value("num_experts", 16),
             active = r.value("num_experts_per_tok", 2), loss = r.value("router_aux_loss_coef", 0.001);
  const std::int64_t period = r.whole("expert_layer_period", kMost, 2), from = offset("expert_layer_offset", 1);
  r.set("model.ffn", width);
  r.set("model.family", experts == 1 ? "llama" : "mixtral");
  if (experts == 1) return;
  r.set("model.expert_ffn", width);
  r.set("model.experts", experts);
  r.set("model.active_experts", active);
  r.set("model.routing.balance_loss", loss);
  r.set("model.routing.normalise", false);
  set_dense(r, [&](std::int64_t layer) { return layer % period != from; });
}

// By which period and offset layers are chosen; where they are not, the config reads as another model.
void put_period(Writing& w, const std::string& kind, const std::vector<bool>& chosen) {
  const auto layers = static_cast<std::int64_t>(chosen.size());
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < layers; ++i)
    if (chosen[static_cast<std::size_t>(i)]) all.push_back(i);
  const std::int64_t first = all.empty() ? layers : all[0];
  w.put(kind + "_layer_period", all.size() > 1 ? all[1] - all[0] : layers + 1);
  w.put(kind + "_layer_offset", first);
}
void write_jamba(Writing& w) {
  const auto layers = static_cast<std::size_t>(w.number("model.layers"));
  std::vector<bool> attention =
      layers_with(w.at("model.layers_of"), static_cast<std::int64_t>(layers), "mixer", "attention");
  attention.resize(layers);
  put_period(w, "attn", attention);
  const double inner = w.number("model.state_heads"), hidden = w.number("model.hidden");
  if (std::fmod(inner, hidden) != 0) return w.cannot("model.state_heads");
  w.put("mamba_expand", static_cast<std::int64_t>(inner / hidden));
  w.put("mamba_dt_rank", w.at("model.dt_rank"));
  if (w.number("model.scan_norm_eps") != w.number("model.norm_eps")) w.cannot("model.scan_norm_eps");
  w.put("intermediate_size", w.at("model.ffn"));
  if (w.at("model.experts").is_null()) return w.put("num_experts", 1);
  std::vector<bool> experts = dense_of(w);
  experts.flip();
  put_period(w, "expert", experts);
  w.put("num_experts", w.at("model.experts"));
  w.put("num_experts_per_tok", w.at("model.active_experts"));
  w.put("router_aux_loss_coef", w.at("model.routing.balance_loss"));
}

}  // namespace

const std::vector<Rule>& state_rules() {
  static const std::vector<Rule> rules = {{"mamba2", read_mamba2, write_mamba2},
                                          {"mamba", read_mamba, write_mamba},
                                          {"jamba", read_jamba, write_jamba},
                                          {"nemotron_h", read_nemotron_h, write_nemotron_h},
                                          {"qwen3_next", read_qwen3_next, write_qwen3_next},
                                          {"granite_hybrid", read_granite_hybrid, write_granite_hybrid}};
  return rules;
}

}  // namespace mbench::formats
