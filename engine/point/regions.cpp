#include "engine/point/regions.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;

constexpr Choices<Region, kRegions> kNames = {{{"layer", Region::layer},
                                               {"core_attention", Region::core_attention},
                                               {"mla_up_proj", Region::mla_up_proj},
                                               {"mlp", Region::mlp},
                                               {"moe", Region::moe},
                                               {"moe_act", Region::moe_act},
                                               {"norm", Region::norm},
                                               {"alternate_products", Region::alternate_gemms}}};
struct Mode {
  const char* name;
  Recompute recompute;
};
constexpr Mode kModes[] = {{"none", Recompute::none}, {"selective", Recompute::selective}, {"full", Recompute::full}};

void check_together(const Regions& regions, const std::string& where) {
  if (regions.has(Region::layer) && regions != Recompute::full.regions)
    fail(ErrorKind::bad_input, where,
         "the region layer holds all others, need it without others, or the others without it");
  if (regions.has(Region::alternate_gemms) && regions != Regions{Region::alternate_gemms})
    fail(ErrorKind::bad_input, where,
         "the region alternate_products is of whole layers, need it without others, or the others without it");
}

}  // namespace

Recompute read_recompute(const json& value, const std::string& where) {
  Recompute found;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      found.regions.add(read_choice(value[i], fmt::format("{}[{}]", where, i), kNames));
    check_together(found.regions, where);
    return found;
  }
  const std::string text = read_string(value, where);
  std::vector<std::string> choices;
  for (const Mode& mode : kModes) {
    if (text == mode.name) return mode.recompute;
    choices.emplace_back(mode.name);
  }
  for (const auto& [name, region] : kNames) choices.emplace_back(name);
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    bool known = false;
    for (const auto& [each, region] : kNames)
      if (name == each) found.regions.add(region), known = true;
    if (!known)
      fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value), nearest_choice(name, choices));
    begin = end + 1;
  }
  check_together(found.regions, where);
  return found;
}

nlohmann::ordered_json recompute_schema() {
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  std::string word;
  for (const auto& [name, region] : kNames) {
    names.push_back(name);
    word += (word.empty() ? "" : "|") + std::string(name);
  }
  std::string modes;
  for (const Mode& mode : kModes) modes += std::string(mode.name) + "|";
  const nlohmann::ordered_json text = {{"type", "string"},
                                       {"pattern", fmt::format("^({}({})(\\+({}))*)$", modes, word, word)}};
  const nlohmann::ordered_json list = {{"type", "array"}, {"items", {{"enum", names}}}};
  return {{"anyOf", nlohmann::ordered_json::array({text, list})}};
}

std::string name_of(const Recompute& recompute) {
  for (const Mode& mode : kModes)
    if (recompute == mode.recompute) return mode.name;
  std::string text;
  for (const auto& [name, region] : kNames)
    if (recompute.regions.has(region)) text += (text.empty() ? "" : "+") + std::string(name);
  return text;
}

}  // namespace mbench
