// Layers of one branch each, by letters, and the sizes of Mamba-2.
#include "formats/megatron/hybrid_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/json_reader.h"

namespace mbench::formats {
namespace {

constexpr std::int64_t kChunk = 128;  // of its scan, which has no flag
constexpr std::pair<const char*, const char*> kSizes[] = {{"--mamba-state-dim", "model.state_dim"},
                                                          {"--mamba-head-dim", "model.state_head_dim"},
                                                          {"--mamba-num-groups", "model.state_groups"}};
constexpr int kDefaults[] = {128, 64, 8};

// A depth of multi-token prediction has attention and a feed-forward block, with experts where the model has them.
std::string depth_of(const std::string& letters) {
  return letters.find('E') != std::string::npos ? "*E" : "*-";
}

// Behind each "/" stand the letters of one depth.
void read_depths(Reading& r, const std::string& letters, std::string_view depths) {
  std::int64_t count = 0;
  for (; !depths.empty(); ++count) {
    const std::string_view own = depths.substr(1, depths.find('/', 1) - 1);
    if (own != depth_of(letters))
      r.lack("--hybrid-layer-pattern",
             fmt::format("a depth of multi-token prediction that is not {}", depth_of(letters)));
    depths.remove_prefix(own.size() + 1);
  }
  if (count > 0) r.set("model.mtp_layers", count);
}

// The letters of layers. "|" marks where stages end.
std::string letters_of(Reading& r, const std::string& pattern) {
  const std::size_t end = std::min(pattern.find('/'), pattern.size());
  std::string letters;
  for (const char letter : pattern.substr(0, end))
    if (letter != '|') letters += letter;
  read_depths(r, letters, std::string_view(pattern).substr(end));
  if (pattern.find('|') != std::string::npos)
    r.note("--hybrid-layer-pattern: where stages end is left out, need pipeline_layout where they are not equal");
  if (letters.find_first_not_of("MG*-E") != std::string::npos)
    r.lack("--hybrid-layer-pattern", "layers of other kinds than M, G, *, - and E");
  return letters;
}

void read_hybrid(Reading& r) {
  json pattern = r.value("--hybrid-layer-pattern");
  if (const json older = r.value("--hybrid-override-pattern"); pattern.is_null()) pattern = older;
  const json spec = r.value("--spec"), heads = r.value("--mamba-num-heads"), ffn = r.value("--ffn-hidden-size");
  json sizes[std::size(kSizes)];
  for (std::size_t i = 0; i < std::size(kSizes); ++i) sizes[i] = r.value(kSizes[i].first, kDefaults[i]);
  const bool hybrid = r.flag("--is-hybrid-model");
  if (!pattern.is_string()) {
    if (hybrid) r.lack("--is-hybrid-model", "layers of different kinds without a pattern", false);
    if (!spec.is_null()) r.lack("--spec", "layers by a module of its own");
    return;
  }
  const std::string letters = letters_of(r, pattern.get<std::string>());
  r.set("model.hybrid_pattern", letters);
  if (letters.find('-') != std::string::npos && ffn.is_number()) r.set("model.ffn", ffn);
  if (letters.find_first_of("MG") == std::string::npos) return;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) r.set(kSizes[i].second, sizes[i]);
  const auto hidden = r.get("model.hidden");
  if (heads.is_number())
    r.set("model.state_heads", heads);
  else if (hidden && hidden->is_number() && sizes[1].is_number() && sizes[1] != 0)
    r.set("model.state_heads", 2 * hidden->get<std::int64_t>() / sizes[1].get<std::int64_t>());
  r.set("model.state_chunk", kChunk);
}

void write_hybrid(Writing& w) {
  const json pattern = w.at("model.hybrid_pattern");
  if (pattern.is_null()) {
    if (!w.at("model.state_heads").is_null()) w.cannot("model.mixer", "layers have a mixer and a feed-forward block");
    return;
  }
  w.put("script", "pretrain_mamba.py");
  w.put("--spec", json::array({"megatron.core.models.mamba.mamba_layer_specs", "mamba_stack_spec"}));
  const auto letters = pattern.get<std::string>();
  if (letters.find_first_of("SCL") != std::string::npos)
    return w.cannot("model.hybrid_pattern", "layers M, G, *, - and E");
  const auto depths = static_cast<std::int64_t>(w.number("model.mtp_layers"));
  if (depths == 0)
    w.put("--hybrid-override-pattern", pattern);
  else {  // which the older flag does not say
    std::string all = letters;
    for (std::int64_t i = 0; i < depths; ++i) all += "/" + depth_of(letters);
    w.put("--hybrid-layer-pattern", all);
  }
  if (w.at("model.state_heads").is_null()) return;
  for (const auto& [flag, field] : kSizes) w.put(flag, w.at(field));
  w.put("--mamba-num-heads", w.at("model.state_heads"));
  if (w.at("model.conv_width") != 4) w.cannot("model.conv_width", "it is 4 there");
  if (w.at("model.state_chunk") != kChunk) w.cannot("model.state_chunk", "it is 128 there");
}

}  // namespace

const Rule& hybrid_rule() {
  static const Rule rule = {"megatron_hybrid", read_hybrid, write_hybrid};
  return rule;
}

}  // namespace mbench::formats
