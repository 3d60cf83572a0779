#include "engine/point/node_placement.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::int64_t kMostNodes = 1 << 20;
constexpr const char* kNeeds = "need block, cyclic, or how many nodes each leaf has, such as [24, 8] or \"24+8\"";

// The whole text as one count; 0 where it is none.
std::int64_t count_of(std::string_view text) {
  std::int64_t count = 0;
  const auto [last, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc() && last == text.data() + text.size();
  return whole && count >= 1 && count <= kMostNodes ? count : 0;
}

}  // namespace

NodePlacement read_node_placement(const json& value, const std::string& where) {
  NodePlacement placement;
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      placement.leaves.push_back(read_int(value[i], fmt::format("{}[{}]", where, i), 1, kMostNodes));
    if (placement.leaves.empty()) fail(ErrorKind::bad_input, where, "got an empty list, {}", kNeeds);
    return placement;
  }
  if (value.is_number())
    fail(ErrorKind::bad_input, where,
         "got {}, {}; a list that is swept over gives each of its values to a point of its own: "
         "\"24+8\" is one value",
         short_json(value), kNeeds);
  const std::string text = read_string(value, where);
  if (text == "block") return placement;
  if (text == "cyclic") return {NodePlacement::Order::cyclic, {}};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const std::int64_t count = count_of(std::string_view(text).substr(begin, end - begin));
    if (count == 0) fail(ErrorKind::bad_input, where, "got {}, {}", short_json(value), kNeeds);
    placement.leaves.push_back(count);
    begin = end + 1;
  }
  return placement;
}

ordered_json node_placement_schema() {
  const ordered_json text = {{"type", "string"}, {"pattern", "^(block|cyclic|[1-9][0-9]*(\\+[1-9][0-9]*)*)$"}};
  const ordered_json list = {
      {"type", "array"}, {"minItems", 1}, {"items", {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostNodes}}}};
  return {{"anyOf", ordered_json::array({text, list})}};
}

std::string name_of(const NodePlacement& placement) {
  if (placement.order == NodePlacement::Order::cyclic) return "cyclic";
  std::string text;
  for (const std::int64_t nodes : placement.leaves) text += (text.empty() ? "" : "+") + std::to_string(nodes);
  return text.empty() ? "block" : text;
}

}  // namespace mbench
