// Layers that differ: windows, layers without positions, layers without experts.
#include <algorithm>

#include "engine/base/json_reader.h"
#include "formats/hugging_face/rules.h"
#include "formats/table/layers.h"

namespace mbench::formats {
namespace {

std::int64_t layers_in(const Reading& r) {
  const auto layers = r.get("model.layers");
  return layers && layers->is_number_integer() ? layers->get<std::int64_t>() : 0;
}

// Whether a window is shorter than the longest sequence; noted where it is not.
bool cuts(Reading& r, const json& window) {
  const auto longest = r.get("model.positions");
  if (!longest || !longest->is_number() || !window.is_number() || window.get<double>() < longest->get<double>())
    return true;
  r.note(fmt::format("sliding_window {} is no shorter than the longest sequence: no window", short_json(window)));
  return false;
}

// The layers of a list of kinds that have all positions, as rules of layers.
json rules_of_full_layers(const json& kinds, const json& parts) {
  std::vector<std::int64_t> full;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    if (kinds[i] == "full_attention") full.push_back(static_cast<std::int64_t>(i));
  return rules_of_layers(full, static_cast<std::int64_t>(kinds.size()), parts);
}

}  // namespace

void set_window_by(Reading& r, const json& window, const json& kinds, json parts_of_full) {
  if (window.is_null() || r.is_without("sliding_window")) return;
  const bool shorter = cuts(r, window);
  if (!shorter) parts_of_full.erase("window");  // what else full layers have they have all the same
  if (shorter && (!kinds.is_array() || kinds.empty() ||
                  std::any_of(kinds.begin(), kinds.end(), [](const json& kind) { return kind != "full_attention"; })))
    r.set("model.window", window);
  if (!kinds.is_array() || parts_of_full.empty()) return;
  if (shorter && !r.get("model.window")) parts_of_full.erase("window");
  if (!parts_of_full.empty()) add_layers(r, rules_of_full_layers(kinds, parts_of_full));
}

// The kind of each layer, where rules say of some that they are full.
void write_layer_types(Writing& w) {
  const json window = w.at("model.window");
  const bool has = window.is_number() && window != 0;
  w.put("sliding_window", has ? window : json());
  if (!has) return;
  const auto full =
      layers_with(w.at("model.layers_of"), static_cast<std::int64_t>(w.number("model.layers")), "window", 0);
  json kinds = json::array();
  for (const bool each : full) kinds.push_back(each ? "full_attention" : "sliding_attention");
  if (!kinds.empty()) w.put("layer_types", kinds);
}

namespace {

// The same by `layer_types`. Without the list it is every `period`-th that is full; 0: none.
void set_window(Reading& r, const json& window, std::int64_t period, const json& parts_of_full) {
  json kinds = r.value("layer_types");
  if (!kinds.is_array() && period > 0) {
    kinds = json::array();
    for (std::int64_t i = 0; i < layers_in(r); ++i)
      kinds.push_back((i + 1) % period == 0 ? "full_attention" : "sliding_attention");
  }
  set_window_by(r, window, kinds, parts_of_full);
}
void read_window(Reading& r) {
  set_window(r, r.value("sliding_window"), 0, {{"window", 0}});
}
void read_window_4096(Reading& r) {
  set_window(r, r.value("sliding_window", 4096), 0, {{"window", 0}});
}
// Gemma 2: the first of two layers.
void read_window_every_second(Reading& r) {
  set_window(r, r.value("sliding_window", 4096), 2, {{"window", 0}});
}
// Cohere 2: three of four layers, which alone have positions.
void read_window_of_cohere2(Reading& r) {
  const json window = r.value("sliding_window", 4096),
             pattern = r.value("sliding_window_pattern", r.value("_sliding_window_pattern"));
  set_window(r, window,
             pattern.is_number_integer() ? pattern.get<std::int64_t>()
             : window.is_null()          ? 0
                                         : 4,
             {{"window", 0}, {"position", "none"}});
}
// Gemma 3: five of six layers, which turn by another base.
void read_window_of_gemma3(Reading& r) {
  const json pattern = r.value("sliding_window_pattern", r.value("_sliding_window_pattern", 6));
  json local = r.value("rope_local_base_freq", 10000);
  json full = {{"window", 0}};
  if (const auto rope = r.get("model.rope")) full["rope"] = *rope;
  if (!full.contains("rope")) full["rope"] = json::object();
  if (const json together = r.value("rope_parameters"); together.is_object() && together.contains("full_attention")) {
    full["rope"] = {{"base", member(together.at("full_attention"), "rope_theta")}};
    if (const json factor = member(together.at("full_attention"), "factor"); factor.is_number())
      full["rope"]["scaling"] = {{"type", "linear"}, {"factor", factor}};
    local = member(member(together, "sliding_attention"), "rope_theta");
  }
  if (!full["rope"].contains("base")) full["rope"]["base"] = 1000000;
  r.set("model.rope", {{"base", local}});
  set_window(r, r.value("sliding_window", 4096), pattern.is_number_integer() ? pattern.get<std::int64_t>() : 6, full);
}
// OLMo 3: the fourth of four layers is full, and a scaling of angles is its alone.
void read_window_of_olmo3(Reading& r) {
  json full = {{"window", 0}};
  if (const auto scaling = r.get("model.rope.scaling")) {
    full["rope"] = *r.get("model.rope");
    json local = full["rope"];
    local.erase("scaling");
    r.set("model.rope", local);
  }
  set_window(r, r.value("sliding_window", 4096), 4, full);
}
// GPT-Neo: layers that see a window come by turns, as a list of patterns says.
void read_window_of_gpt_neo(Reading& r) {
  json kinds = r.value("attention_layers");
  const json types = r.value("attention_types", json::parse(R"([[["global", "local"], 12]])"));
  if (!kinds.is_array()) {
    kinds = json::array();
    for (const json& each : types)
      for (int i = 0; each.is_array() && each.size() == 2 && each[1].is_number() && i < each[1].get<int>(); ++i)
        for (const json& kind : each[0]) kinds.push_back(kind);
  }
  std::vector<std::int64_t> local;
  for (std::int64_t i = 0; i < layers_in(r) && static_cast<std::size_t>(i) < kinds.size(); ++i)
    if (kinds[static_cast<std::size_t>(i)] == "local") local.push_back(i);
  const json window = r.value("window_size", 256);
  if (!local.empty() && cuts(r, window)) add_layers(r, rules_of_layers(local, layers_in(r), {{"window", window}}));
}
// From a layer on, or those that a list names.
void set_window_from(Reading& r, const json& window, const json& from) {
  if (r.value("layer_types").is_array()) return set_window(r, window, 0, {{"window", 0}});
  if (window.is_null() || r.is_without("sliding_window") || !cuts(r, window) || !from.is_number_integer()) return;
  if (from.get<std::int64_t>() >= layers_in(r)) return;
  if (from == 0) return r.set("model.window", window);
  add_layers(r, json::array({{{"from", from}, {"window", window}}}));
}
void read_window_from(Reading& r) {
  const json window = r.value("sliding_window", 4096);
  set_window_from(r, window, r.value("max_window_layers", 62));
}
void read_window_if_used(Reading& r) {
  const json window = r.value("sliding_window", 4096), from = r.value("max_window_layers", 28);
  if (!r.flag("use_sliding_window")) {
    r.ignore("sliding_window");
    r.ignore("layer_types");
    r.ignore("max_window_layers");
    return;
  }
  set_window_from(r, window, from);
}
// GPT-OSS: the second of two layers is full.
void read_window_of_gpt_oss(Reading& r) {
  set_window(r, r.value("sliding_window", 128), 2, {{"window", 0}});
}
// Exaone 4: the fourth of four layers is full, and has no positions. "LLLG" is four. Without a window all have positions.
void read_window_of_exaone(Reading& r) {
  const json pattern = r.value("sliding_window_pattern", 4);
  const std::int64_t period = pattern.is_string() ? static_cast<std::int64_t>(pattern.get<std::string>().size())
                              : pattern.is_number_integer() ? pattern.get<std::int64_t>()
                                                            : 0;
  set_window(r, r.value("sliding_window", 4096), period, {{"window", 0}, {"position", "none"}});
}
// Full layers alone have the scaling.
void write_window_of_olmo3(Writing& w) {
  write_layer_types(w);
  const json rules = w.at("model.layers_of");
  if (!rules.is_array() || rules.empty() || !rules[0].contains("rope") || !rules[0].at("rope").contains("scaling"))
    return;
  w.put("rope_scaling", rope_scaling_of(rules[0].at("rope").at("scaling")));
}
void write_window_of_gpt_neo(Writing& w) {
  const json rules = w.at("model.layers_of");
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  const json window = rules.is_array() && !rules.empty() ? rules[0].value("window", json(256)) : json(256);
  std::vector<bool> local = layers_with(rules, layers, "window", window);
  local.resize(static_cast<std::size_t>(layers));
  json kinds = json::array();
  for (const bool each : local) kinds.push_back(each ? "local" : "global");
  w.put("attention_types", json::array({json::array({kinds, 1})}));
  w.put("window_size", window);
}
// transformers' class divides by a period where neither layers nor a window are given.
void write_window_of_exaone(Writing& w) {
  write_layer_types(w);
  if (w.number("model.window") == 0)
    w.put("layer_types",
          json(std::vector<std::string>(static_cast<std::size_t>(w.number("model.layers")), "full_attention")));
}
void write_window_of_gemma3(Writing& w) {
  write_layer_types(w);
  w.put("rope_local_base_freq", w.at("model.rope.base"));
  const json rules = w.at("model.layers_of");
  if (!rules.is_array() || rules.empty() || !rules[0].contains("rope")) return;
  const json& full = rules[0].at("rope");
  w.put("rope_theta", full.value("base", 10000.0));
  if (full.contains("scaling"))
    w.put("rope_scaling", {{"rope_type", "linear"}, {"factor", full.at("scaling").value("factor", 1.0)}});
}
// A window from a layer on is the one rule of its layers.
void write_window_from(Writing& w) {
  const json rules = w.at("model.layers_of");
  const bool later =
      w.number("model.window") == 0 && rules.is_array() && rules.size() == 1 && rules[0].contains("window");
  if (!later) return write_layer_types(w);
  w.put("sliding_window", rules[0].at("window"));
  w.put("max_window_layers", rules[0].value("from", 0));
}
void write_window_if_used(Writing& w) {
  if (w.number("model.window") == 0 && w.at("model.layers_of").is_null()) return;
  w.put("use_sliding_window", true);
  w.put("max_window_layers", 0);
  write_window_from(w);
}

// Which layers are in a list of layers.
bool holds(const json& list, std::int64_t layer) {
  return list.is_array() && std::find(list.begin(), list.end(), json(layer)) != list.end();
}

}  // namespace

void set_dense(Reading& r, const std::function<bool(std::int64_t)>& dense) {
  const std::int64_t layers = layers_in(r);
  std::vector<std::int64_t> without;
  for (std::int64_t i = 0; i < layers; ++i)
    if (dense(i)) without.push_back(i);
  const auto count = static_cast<std::int64_t>(without.size());
  if (layers > 0 && count == layers) return r.lack("mlp_only_layers", "experts in no layer", json::array());
  const bool first = count == 0 || without.back() == count - 1;
  r.set("model.dense_layers", first ? count : 0);
  if (!first) add_layers(r, rules_of_layers(without, layers, {{"experts", 0}}));
}

std::vector<bool> dense_of(const Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  std::vector<bool> all = layers_with(w.at("model.layers_of"), layers, "experts", 0);
  all.resize(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(w.number("model.dense_layers")) && i < layers; ++i)
    all[static_cast<std::size_t>(i)] = true;
  return all;
}

namespace {

json numbers_of(const std::vector<bool>& layers, bool value) {
  json all = json::array();
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i] == value) all.push_back(i);
  return all;
}

// Qwen: the last of so many layers has experts, unless a list names it.
void read_sparse_layers(Reading& r) {
  const std::int64_t step = r.whole("decoder_sparse_step", 1 << 20, 1);
  const json only = r.value("mlp_only_layers");
  set_dense(r, [&](std::int64_t layer) { return (layer + 1) % step != 0 || holds(only, layer); });
}
void write_sparse_layers(Writing& w) {
  if (const json dense = numbers_of(dense_of(w), true); !dense.empty()) w.put("mlp_only_layers", dense);
}

// ERNIE 4.5: the last of so many layers has experts, from one layer to another.
void read_layers_of_ernie(Reading& r) {
  const std::int64_t step = r.whole("moe_layer_interval", 1 << 20, 1);
  const auto bound = [&](const char* key, std::int64_t absent) {
    const json value = r.value(key, absent);
    return value.is_number_integer() && value >= 0 ? value.get<std::int64_t>() : absent;
  };
  const std::int64_t first = bound("moe_layer_start_index", 1), last = bound("moe_layer_end_index", layers_in(r) - 1);
  set_dense(r, [&](std::int64_t layer) { return (layer + 1) % step != 0 || layer < first || layer > last; });
}

// Every fourth layer has no positions, or those of a list with a zero.
std::vector<std::int64_t> layers_without_positions(Reading& r) {
  const std::int64_t every = r.whole("no_rope_layer_interval", 1 << 20, 4), layers = layers_in(r);
  const json turned = r.value("no_rope_layers");
  std::vector<std::int64_t> without;
  for (std::int64_t i = 0; i < layers; ++i)
    if (turned.is_array() && !turned.empty()
            ? static_cast<std::size_t>(i) < turned.size() && turned[static_cast<std::size_t>(i)] == 0
            : (i + 1) % every == 0)
      without.push_back(i);
  return without;
}
void read_no_rope_layers(Reading& r) {
  add_layers(r, rules_of_layers(layers_without_positions(r), layers_in(r), {{"position", "none"}}));
}
void write_no_rope_layers(Writing& w) {
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  std::vector<bool> without = layers_with(w.at("model.layers_of"), layers, "position", "none");
  without.resize(static_cast<std::size_t>(layers));
  json turned = json::array();
  for (const bool each : without) turned.push_back(each ? 0 : 1);
  w.put("no_rope_layers", turned);
}

// Whether a key says yes: some files have a number.
bool says_yes(Reading& r, const char* key) {
  const json value = r.value(key, true);
  return !r.is_without(key) && (value.is_number() ? value != 0 : value == true);
}

// LLaMA 4: layers with positions attend in chunks, and norm queries and keys. Those without attend to all, with queries that grow with their
// position. Which attend in chunks a list may say otherwise.
void read_attention_of_llama4(Reading& r) {
  const json chunk = r.value("attention_chunk_size", 8192), kinds = r.value("layer_types");
  const bool norms = says_yes(r, "use_qk_norm"), grow = says_yes(r, "attn_temperature_tuning"),
             chunks = chunk.is_number() && !r.is_without("attention_chunk_size");
  const json temperature = {{"scale", r.value("attn_scale", 0.1)}, {"floor", r.value("floor_scale", 8192)}};
  if (!norms) r.set("model.qk_norm", false);  // also where the key is left out, as asked
  if (chunks) r.set("model.attention_chunk", chunk);
  json parts = {{"position", "none"}};
  if (norms) parts["qk_norm"] = false;
  if (grow && temperature.at("scale") != 0) parts["attention_temperature"] = temperature;
  if (chunks && !kinds.is_array()) parts["attention_chunk"] = 0;
  const std::vector<std::int64_t> without = layers_without_positions(r);
  add_layers(r, rules_of_layers(without, layers_in(r), parts));
  if (chunks && kinds.is_array()) add_layers(r, rules_of_full_layers(kinds, {{"attention_chunk", 0}}));
}

// The last of so many layers has experts, or those of a list.
void read_llama4(Reading& r) {
  const std::int64_t step = r.whole("interleave_moe_layer_step", 1 << 20, 1);
  const json with_experts = r.value("moe_layers");
  read_attention_of_llama4(r);
  set_dense(r, [&](std::int64_t layer) {
    return with_experts.is_array() ? !holds(with_experts, layer) : (layer + 1) % step != 0;
  });
}
void write_llama4(Writing& w) {
  write_no_rope_layers(w);
  w.put("moe_layers", numbers_of(dense_of(w), false));
  const json rules = w.at("model.layers_of");
  const auto layers = static_cast<std::int64_t>(w.number("model.layers"));
  const double chunk = w.number("model.attention_chunk");
  w.put("attention_chunk_size", chunk > 0 ? w.at("model.attention_chunk") : json());
  if (const auto full = layers_with(rules, layers, "attention_chunk", 0);
      chunk > 0 && full != layers_with(rules, layers, "position", "none")) {
    json kinds = json::array();
    for (std::size_t i = 0; i < static_cast<std::size_t>(layers); ++i)
      kinds.push_back(!full.empty() && full[i] ? "full_attention" : "chunked_attention");
    w.put("layer_types", kinds);
  }
  json temperature;
  for (const json& rule : rules)
    if (rule.contains("attention_temperature")) temperature = rule.at("attention_temperature");
  w.put("attn_temperature_tuning", temperature.is_object());
  if (!temperature.is_object()) return;
  w.put("attn_scale", temperature.at("scale"));
  w.put("floor_scale", temperature.value("floor", 8192));
}

}  // namespace

const std::vector<Rule>& layer_rules() {
  static const std::vector<Rule> rules = {{"window", read_window, write_layer_types},
                                          {"window_every_second", read_window_every_second, write_layer_types},
                                          {"window_of_cohere2", read_window_of_cohere2, write_layer_types},
                                          {"window_of_gemma3", read_window_of_gemma3, write_window_of_gemma3},
                                          {"window_of_gpt_oss", read_window_of_gpt_oss, write_layer_types},
                                          {"window_of_exaone", read_window_of_exaone, write_window_of_exaone},
                                          {"window_4096", read_window_4096, write_layer_types},
                                          {"window_from", read_window_from, write_window_from},
                                          {"window_if_used", read_window_if_used, write_window_if_used},
                                          {"sparse_layers", read_sparse_layers, write_sparse_layers},
                                          {"window_of_olmo3", read_window_of_olmo3, write_window_of_olmo3},
                                          {"window_of_gpt_neo", read_window_of_gpt_neo, write_window_of_gpt_neo},
                                          {"layers_of_ernie", read_layers_of_ernie, write_nothing},
                                          {"no_rope_layers", read_no_rope_layers, write_no_rope_layers},
                                          {"llama4", read_llama4, write_llama4}};
  return rules;
}

}  // namespace mbench::formats
