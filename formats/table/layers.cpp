#include "formats/table/layers.h"

#include <algorithm>

#include "formats/table/reading.h"

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

void add_layers(Reading& reading, const json& rules) {
  if (rules.empty()) return;
  json all = reading.get("model.layers_of").value_or(json::array());
  for (const json& rule : rules) all.push_back(rule);
  reading.set("model.layers_of", all);
}

std::vector<bool> layers_with(const json& rules, std::int64_t layers, const char* part, const json& value) {
  std::vector<bool> all(static_cast<std::size_t>(layers), false);
  if (!rules.is_array()) return {};
  for (const json& rule : rules) {
    if (!rule.contains(part)) continue;
    const std::int64_t every = rule.value("every", std::int64_t{1}), from = rule.value("from", std::int64_t{0}),
                       until = rule.value("until", layers);
    if (rule.at(part) != value || every < 1) return {};
    for (std::int64_t i = from; i < std::min(until, layers); i += every) all[static_cast<std::size_t>(i)] = true;
  }
  return all;
}

bool rules_say(const json& rules, const std::vector<std::string_view>& parts) {
  if (!rules.is_array()) return true;
  for (const json& rule : rules)
    for (const auto& [key, value] : rule.items())
      if (key != "every" && key != "from" && key != "until" &&
          std::find(parts.begin(), parts.end(), key) == parts.end())
        return false;
  return true;
}

}  // namespace mbench::formats
