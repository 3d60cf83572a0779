// Lists of layers: which have experts, which see a window, and by which angles each kind turns.
#include <algorithm>
#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"
#include "formats/table/layers.h"

namespace mbench::formats {
namespace {

std::int64_t layers_of(Reading& r) {
  const auto layers = r.get("model.layers");
  return layers && layers->is_number_integer() ? layers->get<std::int64_t>() : 0;
}

// The layers that "mlp_layer_types" calls dense, or so many first ones.
void set_dense_by_list(Reading& r, std::int64_t first) {
  const json types = r.value("mlp_layer_types");
  const double given = r.number("first_k_dense_replace", static_cast<double>(first));
  set_dense(r, [&](std::int64_t layer) {
    if (!types.is_array()) return static_cast<double>(layer) < given;
    return static_cast<std::size_t>(layer) < types.size() && types[static_cast<std::size_t>(layer)] == "dense";
  });
}
void read_first_dense(Reading& r) {
  set_dense_by_list(r, 1);
}
void read_all_sparse(Reading& r) {
  set_dense_by_list(r, 0);
}
void write_mlp_layer_types(Writing& w) {
  json types = json::array();
  for (const bool dense : dense_of(w)) types.push_back(dense ? "dense" : "sparse");
  w.put("mlp_layer_types", types);
}

// The kinds of layers where no list says them: the first of four is full.
json kinds_by_four(Reading& r) {
  json kinds = r.value("layer_types");
  if (kinds.is_array()) return kinds;
  kinds = json::array();
  for (std::int64_t i = 0; i < layers_of(r); ++i) kinds.push_back(i % 4 == 0 ? "full_attention" : "sliding_attention");
  return kinds;
}
void read_window_of_cwm(Reading& r) {
  set_window_by(r, r.value("sliding_window", 8192), kinds_by_four(r), {{"window", 0}});
}

// AFMoE: the fourth of four layers is full, and has no positions. Its embedding may be multiplied by the root of hidden.
void read_afmoe(Reading& r) {
  const std::int64_t period = r.whole("global_attn_every_n_layers", 1 << 20, 4);
  json kinds = r.value("layer_types");
  if (!kinds.is_array()) {
    kinds = json::array();
    for (std::int64_t i = 0; i < layers_of(r); ++i)
      kinds.push_back((i + 1) % period == 0 ? "full_attention" : "sliding_attention");
  }
  set_window_by(r, r.value("sliding_window", 1024), kinds, {{"window", 0}, {"position", "none"}});
  const auto hidden = r.get("model.hidden");
  if (r.flag("mup_enabled") && hidden && hidden->is_number())
    r.set("model.embedding_scale", std::sqrt(hidden->get<double>()));
}
void write_afmoe(Writing& w) {
  write_layer_types(w);
  if (w.number("model.embedding_scale") != 1) w.put("mup_enabled", true);
}

// Granite with sinks: a window, and a base for each layer, without which it has no positions.
void read_layers_of_granite(Reading& r) {
  set_window_by(r, r.value("sliding_window", 128), kinds_by_four(r), {{"window", 0}});
  const json bases = r.value("layer_rope_theta"), usual = r.get("model.rope.base").value_or(json(10000));
  if (!bases.is_array()) return;
  const std::int64_t layers = layers_of(r);
  json seen = json::array({usual});
  for (const json& base : bases) {
    if (std::find(seen.begin(), seen.end(), base) != seen.end()) continue;
    seen.push_back(base);
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < layers && static_cast<std::size_t>(i) < bases.size(); ++i)
      if (bases[static_cast<std::size_t>(i)] == base) chosen.push_back(i);
    json rope = r.get("model.rope").value_or(json::object());
    rope["base"] = base;
    const bool turns = base.is_number() && base != 0;
    add_layers(r, rules_of_layers(chosen, layers, turns ? json{{"rope", rope}} : json{{"position", "none"}}));
  }
}
void write_layers_of_granite(Writing& w) {
  write_layer_types(w);
  const auto layers = static_cast<std::size_t>(w.number("model.layers"));
  std::vector<json> bases(layers, w.at("model.rope.base"));
  const json rules = w.at("model.layers_of");
  bool differ = false;
  for (const json& rule : rules.is_array() ? rules : json::array()) {
    if (!rule.contains("rope") && rule.value("position", "") != "none") continue;
    differ = true;
    const std::size_t every = rule.value("every", std::size_t{1}), until = rule.value("until", layers);
    for (std::size_t i = rule.value("from", std::size_t{0}); i < until; i += every)
      bases[i] = rule.contains("rope") ? rule.at("rope").value("base", json(10000)) : json(0);
  }
  if (differ) w.put("layer_rope_theta", bases);
}

// Mellum: a rope for each kind of layer.
void read_layers_of_mellum(Reading& r) {
  const json positions = r.get("model.positions").value_or(json(131072)), both = r.value("rope_parameters");
  json full = rope_from(member(both, "full_attention"), positions),
       near = rope_from(member(both, "sliding_attention"), positions);
  if (full.is_null()) full = {{"base", 500000}};
  if (near.is_null()) near = {{"base", 10000}};
  const json kinds = r.value("layer_types");
  const bool windows =
      kinds.is_array() && std::find(kinds.begin(), kinds.end(), json("sliding_attention")) != kinds.end();
  r.set("model.rope", windows ? near : full);
  if (windows) set_window_by(r, r.value("sliding_window", 1024), kinds, {{"window", 0}, {"rope", full}});
}
void write_layers_of_mellum(Writing& w) {
  write_layer_types(w);
  json near = rope_parameters_of(w.at("model.rope")), full = near;
  for (const json& rule : w.at("model.layers_of").is_array() ? w.at("model.layers_of") : json::array())
    if (rule.contains("rope")) full = rope_parameters_of(rule.at("rope"));
  w.put("rope_parameters", {{"full_attention", full}, {"sliding_attention", near}});
}

// A shared expert whose width is a key, or none.
void read_shared_width(Reading& r) {
  const json width = r.value("shared_intermediate_size", 0);
  if (width == 0) return;
  r.set("model.shared_experts", 1);
  r.set("model.shared_expert_ffn", width);
}
void write_shared_width(Writing& w) {
  w.put("shared_intermediate_size", w.number("model.shared_experts") > 0 ? w.at("model.shared_expert_ffn") : json(0));
}

// MiniCPM 3: what branches add falls with the root of the number of layers, logits with the width.
void read_minicpm3(Reading& r) {
  const std::int64_t layers = r.whole("num_hidden_layers", 16384, 62), hidden = r.whole("hidden_size", 1 << 20, 2560),
                     heads = r.whole("num_attention_heads", 1 << 16, 40);
  const json depth = r.value("scale_depth", 1.4), base = r.value("dim_model_base", 256);
  if (depth.is_number() && layers > 0)
    r.set("model.residual_scale", depth.get<double>() / std::sqrt(static_cast<double>(layers)));
  if (base.is_number()) r.set("model.logit_scale", base.get<double>() / static_cast<double>(hidden));
  const json width = r.value("v_head_dim");
  r.set("model.v_head_dim", width.is_null() ? json(hidden / heads) : width);
}
void write_minicpm3(Writing& w) {
  const double root = std::sqrt(w.number("model.layers")), scale = w.number("model.residual_scale");
  double depth = std::round(scale * root * 1e9) / 1e9;
  if (depth / root != scale) depth = scale * root;
  w.put("scale_depth", depth);
  w.put("dim_model_base", as_number(w.number("model.logit_scale") * w.number("model.hidden")));
  w.put("v_head_dim", w.at("model.v_head_dim"));
}

// BioGPT's embedding may be multiplied by the root of hidden.
void read_scaled_embedding(Reading& r) {
  const auto hidden = r.get("model.hidden");
  if (r.value("scale_embedding", true) == true && hidden && hidden->is_number())
    r.set("model.embedding_scale", std::sqrt(hidden->get<double>()));
}
void write_scaled_embedding(Writing& w) {
  w.put("scale_embedding", w.number("model.embedding_scale") != 1);
}

}  // namespace

const std::vector<Rule>& layer_list_rules() {
  static const std::vector<Rule> rules = {{"first_dense", read_first_dense, write_mlp_layer_types},
                                          {"all_sparse", read_all_sparse, write_mlp_layer_types},
                                          {"window_of_cwm", read_window_of_cwm, write_layer_types},
                                          {"afmoe", read_afmoe, write_afmoe},
                                          {"layers_of_granite", read_layers_of_granite, write_layers_of_granite},
                                          {"layers_of_mellum", read_layers_of_mellum, write_layers_of_mellum},
                                          {"shared_width", read_shared_width, write_shared_width},
                                          {"minicpm3", read_minicpm3, write_minicpm3},
                                          {"scaled_embedding", read_scaled_embedding, write_scaled_embedding}};
  return rules;
}

}  // namespace mbench::formats
