// What one key of a Hugging Face config cannot say alone.
#include <algorithm>

#include "engine/base/json_reader.h"
#include "formats/table/rules.h"

namespace mbench::formats {
namespace {

// An object's member, or null.
json member(const json& object, const char* key) {
  return object.is_object() && object.contains(key) ? object.at(key) : json();
}

// Angles: base, fraction, and LLaMA 3.1's scaling. Version 5 has all of it in one object. Other scalings turn by other angles, at no
// other cost.
void read_rope(Reading& r) {
  const json together = r.value("rope_parameters");
  json scaling = together.is_object() ? together : r.value("rope_scaling");
  if (const json base = member(together, "rope_theta"); base.is_number()) r.set("model.rope.base", base);
  if (const json part = member(together, "partial_rotary_factor"); part.is_number()) r.set("model.rope.fraction", part);
  json type = member(scaling, "rope_type");
  if (type.is_null()) type = member(scaling, "type");
  if (type.is_null() || type == "default") {
    if (!together.is_object() && !scaling.is_null())
      r.note(fmt::format("rope_scaling {} names no type: left out, angles do not change the cost", short_json(scaling)));
    return;
  }
  if (type != "llama3") {
    r.note(fmt::format("{} {} turns by other angles at the same cost: left out", together.is_object() ? "rope_parameters" : "rope_scaling", short_json(type)));
    return;
  }
  for (const auto& [theirs, ours] : {std::pair{"factor", "factor"},
                                     {"low_freq_factor", "low_frequency_factor"},
                                     {"high_freq_factor", "high_frequency_factor"},
                                     {"original_max_position_embeddings", "original_positions"}})
    if (const json value = member(scaling, theirs); !value.is_null()) r.set(fmt::format("model.rope.scaling.{}", ours), value);
}

void write_rope(Writing& w) {
  const json scaling = w.at("model.rope.scaling");
  if (scaling.is_null()) return;
  w.put("rope_scaling", {{"rope_type", "llama3"},
                         {"factor", scaling.at("factor")},
                         {"low_freq_factor", scaling.at("low_frequency_factor")},
                         {"high_freq_factor", scaling.at("high_frequency_factor")},
                         {"original_max_position_embeddings", scaling.at("original_positions")}});
}

// A window that no sequence is longer than cuts nothing.
void check_window(Reading& r, const json& absent) {
  r.value("layer_types");  // which layers have it: without one they are all alike
  const json window = r.value("sliding_window", absent);
  if (window.is_null() || r.is_without("sliding_window")) return;
  const auto longest = r.get("model.positions");
  if (longest && longest->is_number() && window.is_number() && window.get<double>() >= longest->get<double>()) {
    r.note(fmt::format("sliding_window {} is no shorter than the longest sequence: no window", short_json(window)));
    return;
  }
  r.lack("sliding_window", "a window on attention", absent);
}
void read_window(Reading& r) {
  check_window(r, nullptr);
}
void read_window_4096(Reading& r) {
  check_window(r, 4096);
}
void read_window_if_used(Reading& r) {
  if (r.flag("use_sliding_window")) return check_window(r, 4096);
  r.ignore("sliding_window");
  r.value("layer_types");
}
// Which layers have a window, by a list or from which on.
void read_window_of_layers(Reading& r) {
  const json kinds = r.value("layer_types"), from = r.value("max_window_layers", 62), window = r.value("sliding_window", 4096);
  if (window.is_null() || r.is_without("sliding_window")) return;
  const bool some = std::any_of(kinds.begin(), kinds.end(), [](const json& kind) { return kind != "full_attention"; });
  const auto layers = r.get("model.layers");
  if (kinds.is_array() ? some : layers && layers->is_number() && from.is_number() && from.get<double>() < layers->get<double>()) r.lack("sliding_window", "a window on attention in some layers", 4096);
}
void write_no_window(Writing& w) {
  w.put("sliding_window", nullptr);
}
void write_nothing(Writing&) {}

// All layers have experts: the width of a block that none has.
void read_ffn_of_experts(Reading& r) {
  if (const auto width = r.get("model.expert_ffn")) r.set("model.ffn", *width);
}

// The shared expert by its width, which mbench has as so many experts.
void read_shared_width(Reading& r) {
  const double width = r.number("shared_expert_intermediate_size", 5632), one = r.number("moe_intermediate_size");
  const auto count = static_cast<std::int64_t>(one >= 1 ? width / one : 0);
  if (static_cast<double>(count) * one != width) return r.lack("shared_expert_intermediate_size", "a shared expert that is not so many times as wide as an expert", 5632);
  r.set("model.shared_experts", count);
}
void write_shared_width(Writing& w) {
  w.put("shared_expert_intermediate_size", static_cast<std::int64_t>(w.number("model.shared_experts") * w.number("model.expert_ffn")));
}

// OPT's embedding may be narrower than its layers.
void read_same_width(Reading& r) {
  const json narrow = r.value("word_embed_proj_dim");
  if (const auto hidden = r.get("model.hidden"); !narrow.is_null() && hidden && narrow != *hidden)
    r.lack("word_embed_proj_dim", "an embedding of another width than the layers");
}

// A null is "straight from hidden", where a missing key is the class's own default.
void read_latent_ranks(Reading& r) {
  if (r.value("q_lora_rank").is_null()) r.set("model.q_lora_rank", 0);
}
void write_latent_ranks(Writing& w) {
  if (w.number("model.q_lora_rank") == 0) w.put("q_lora_rank", nullptr);
  w.put("num_key_value_heads", w.at("model.heads"));
}

// Groups of experts. `noaux_tc` balances by a correction of scores (DeepSeek-V3), the others by a loss (V2).
void read_groups_as(Reading& r, const char* usual_method, const char* usual_score) {
  const json method = r.value("topk_method", usual_method), score = r.value("scoring_func", usual_score);
  if (score != "softmax" && score != "sigmoid") r.lack("scoring_func", "another score", usual_score);
  r.set("model.routing.score", score);
  const bool corrected = method == "noaux_tc", grouped = corrected || method == "group_limited_greedy";
  if (!grouped && method != "greedy") r.lack("topk_method", "another choice of experts", usual_method);
  r.set("model.routing.correction_speed", corrected ? 0.001 : 0);
  const json groups = r.value("n_group"), chosen = r.value("topk_group");
  if (!grouped || groups.is_null() || groups == 1) return;
  r.set("model.routing.groups", groups);
  if (!chosen.is_null()) r.set("model.routing.chosen_groups", chosen);
  r.set("model.routing.group_score", corrected ? "best_two" : "best");
}
void write_groups_as(Writing& w, const char* usual_score, const char* plain, const char* grouped) {
  const json groups = w.at("model.routing.groups");
  if (w.at("model.routing.score") != usual_score) w.put("scoring_func", w.at("model.routing.score"));
  w.put("topk_method", groups.is_null() ? plain : grouped);
  w.put("n_group", groups.is_null() ? json(1) : groups);
  w.put("topk_group", groups.is_null() ? json(1) : w.at("model.routing.chosen_groups"));
}
void read_groups(Reading& r) {
  read_groups_as(r, "greedy", "softmax");
}
void write_groups(Writing& w) {
  write_groups_as(w, "softmax", "greedy", "group_limited_greedy");
}
void read_groups_without_loss(Reading& r) {
  read_groups_as(r, "noaux_tc", "sigmoid");
}
void write_groups_without_loss(Writing& w) {
  write_groups_as(w, "sigmoid", "noaux_tc", "noaux_tc");
}

}  // namespace

const std::vector<Rule>& hugging_face_rules() {
  static const std::vector<Rule> rules = {{"rope", read_rope, write_rope},
                                          {"window", read_window, write_nothing},
                                          {"window_4096", read_window_4096, write_no_window},
                                          {"window_of_layers", read_window_of_layers, write_nothing},
                                          {"window_if_used", read_window_if_used, write_nothing},
                                          {"ffn_of_experts", read_ffn_of_experts, write_nothing},
                                          {"shared_width", read_shared_width, write_shared_width},
                                          {"same_width", read_same_width, write_nothing},
                                          {"latent_ranks", read_latent_ranks, write_latent_ranks},
                                          {"groups", read_groups, write_groups},
                                          {"groups_without_loss", read_groups_without_loss, write_groups_without_loss}};
  return rules;
}

}  // namespace mbench::formats
