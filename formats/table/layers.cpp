#include "formats/table/layers.h"

#include <algorithm>

namespace mbench::formats {

using nlohmann::json;

json rules_of_layers(const std::vector<std::int64_t>& chosen, std::int64_t layers, const json& parts) {
  json rules = json::array();
  const auto rule = [&](std::int64_t every, std::int64_t from, std::int64_t until) {
    json one = parts;
    if (every != 1) one["every"] = every;
    if (from != 0) one["from"] = from;
    if (until != 0) one["until"] = until;
    rules.push_back(one);
  };
  if (chosen.empty()) return rules;
  const std::int64_t every = chosen.size() > 1 ? chosen[1] - chosen[0] : layers;
  std::vector<std::int64_t> regular;
  for (std::int64_t i = chosen[0]; i < layers; i += every) regular.push_back(i);
  if (regular == chosen) {
    rule(every, chosen[0], 0);
    return rules;
  }
  for (std::size_t i = 0; i < chosen.size();) {
    std::size_t end = i + 1;
    while (end < chosen.size() && chosen[end] == chosen[end - 1] + 1) ++end;
    rule(1, chosen[i], chosen[end - 1] + 1);
    i = end;
  }
  return rules;
}

std::vector<bool> layers_with(const json& rules, std::int64_t layers, const char* part, const json& value) {
  std::vector<bool> all(static_cast<std::size_t>(layers), false);
  if (!rules.is_array()) return {};
  for (const json& rule : rules) {
    if (!rule.contains(part) || rule.at(part) != value) return {};
    const std::int64_t every = rule.value("every", std::int64_t{1}), from = rule.value("from", std::int64_t{0}),
                       until = rule.value("until", layers);
    const std::size_t keys = 1 + rule.count("every") + rule.count("from") + rule.count("until");
    if (rule.size() != keys || every < 1) return {};
    for (std::int64_t i = from; i < std::min(until, layers); i += every) all[static_cast<std::size_t>(i)] = true;
  }
  return all;
}

}  // namespace mbench::formats
