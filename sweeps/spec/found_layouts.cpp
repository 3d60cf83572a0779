#include "sweeps/spec/found_layouts.h"

#include <algorithm>
#include <vector>

#include "engine/base/json_reader.h"
#include "engine/point/fields.h"
#include "engine/point/result.h"

namespace mbench::sweeps {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::vector<ordered_json> points_of(const ordered_json& results, const std::string& where) {
  std::vector<ordered_json> points;
  if (results.contains("points") && results.at("points").is_array())
    for (std::size_t i = 0; i < results.at("points").size(); ++i)
      points.push_back(point_to_json(
          result_from_json(json(results.at("points")[i]), fmt::format("{}: $.points[{}]", where, i)).point));
  if (points.empty())
    fail(ErrorKind::bad_input, where + ": $.points", "a search that found no layout, need one that did, or its spec");
  return points;
}

}  // namespace

bool leaves_fields_free(const ordered_json& spec) {
  if (!spec.is_object() || spec.contains("sweep")) return false;
  if (spec.contains("search")) return true;
  return std::any_of(point_keys().begin(), point_keys().end(), [&](const std::string& key) {
    return spec.contains(key) && (spec.at(key) == "any" || spec.at(key).is_array());
  });
}

ordered_json spec_of_layouts(const ordered_json& results, const std::string& where) {
  const std::vector<ordered_json> points = points_of(results, where);
  const ordered_json& searched = results.at("spec");
  ordered_json spec = ordered_json::object();
  for (const char* key : {"$schema", "name", "tables"})
    if (searched.contains(key)) spec[key] = searched.at(key);
  const ordered_json plain = point_to_json(Point());
  std::vector<std::string> zipped;
  std::string joined;
  for (const std::string& key : point_keys()) {
    if (key == "device" || key == "strategy") continue;  // --on says the one, and the fields that it bundles the other
    const ordered_json& first = points.front().at(key);
    const bool shared =
        std::all_of(points.begin(), points.end(), [&](const ordered_json& p) { return p.at(key) == first; });
    if (shared && first != plain.at(key)) spec[key] = first;
    if (shared) continue;
    zipped.push_back(key);
    joined += (joined.empty() ? "" : ",") + key;
  }
  if (zipped.empty()) return spec;  // one layout
  ordered_json layouts = ordered_json::array();
  for (const ordered_json& point : points) {
    ordered_json values = ordered_json::array();
    for (const std::string& key : zipped) values.push_back(point.at(key));
    layouts.push_back(zipped.size() == 1 ? values[0] : values);
  }
  spec["sweep"][joined] = layouts;
  return spec;
}

}  // namespace mbench::sweeps
