#include "engine/point/offloaded_activations.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/point/joined_parts.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<OffloadedPart, kOffloadedParts> kNames = {{{"attn_norm", OffloadedPart::attn_norm},
                                                             {"qkv_linear", OffloadedPart::qkv_linear},
                                                             {"core_attn", OffloadedPart::core_attn},
                                                             {"attn_proj", OffloadedPart::attn_proj},
                                                             {"mlp_norm", OffloadedPart::mlp_norm},
                                                             {"expert_fc1", OffloadedPart::expert_fc1},
                                                             {"moe_act", OffloadedPart::moe_act}}};
constexpr std::string_view kLayers = "layers:";
constexpr std::int64_t kMaxLayers = 16384;

std::int64_t read_layers(const std::string& text, const json& value, const std::string& where) {
  std::int64_t layers = 0;
  const char *begin = text.data() + kLayers.size(), *end = text.data() + text.size();
  const auto [last, error] = std::from_chars(begin, end, layers);
  if (error != std::errc() || last != end || layers < 1 || layers > kMaxLayers)
    fail(ErrorKind::bad_input, where, "got {}, need layers:1 to layers:{}", short_json(value), kMaxLayers);
  return layers;
}

}  // namespace

OffloadedActivations read_offloaded_activations(const json& value, const std::string& where) {
  OffloadedActivations found;
  const std::string text = value.is_array() ? "" : read_string(value, where);
  if (text == "none") return found;
  if (text.starts_with(kLayers))
    found.layers = read_layers(text, value, where);
  else
    found.parts = read_joined_parts(value, where, kNames, {"none", "layers:1"}, "");
  return found;
}

ordered_json offloaded_activations_schema() {
  ordered_json names = ordered_json::array();
  std::string word;
  for (const auto& [name, part] : kNames) {
    names.push_back(name);
    word += (word.empty() ? "" : "|") + std::string(name);
  }
  const ordered_json text = {{"type", "string"},
                             {"pattern", fmt::format("^(none|layers:[1-9][0-9]*|({})(\\+({}))*)$", word, word)}};
  const ordered_json list = {{"type", "array"}, {"items", {{"enum", names}}}};
  return {{"anyOf", ordered_json::array({text, list})}};
}

std::string name_of(const OffloadedActivations& offloaded) {
  if (offloaded.layers > 0) return fmt::format("{}{}", kLayers, offloaded.layers);
  std::string text;
  for (const auto& [name, part] : kNames)
    if (offloaded.parts.has(part)) text += (text.empty() ? "" : "+") + std::string(name);
  return text.empty() ? "none" : text;
}

std::string_view name_of(OffloadedPart part) {
  for (const auto& [name, each] : kNames)
    if (each == part) return name;
  return "";
}

}  // namespace mbench
