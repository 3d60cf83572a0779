#include "reports/records/seeds.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/point/fields.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// What all points of a group share.
std::string key_of(const Record& point) {
  std::string key;
  for (const std::string& field : point_keys())
    if (field != "seed")
      key += point.json().contains(field)
                 ? point.json().at(field).dump(-1, ' ', false, Json::error_handler_t::replace) + "\x1f"
                 : "\x1f";
  return key;
}

Json summary_of(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double x : values) mean += x / n;
  for (const double x : values) squares += (x - mean) * (x - mean);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {{"mean", mean},
          {"stddev", values.size() > 1 ? Json(std::sqrt(squares / (n - 1))) : Json(nullptr)},
          {"least", *least},
          {"most", *most}};
}

// What the points of a group that are ok have in common: the values of their record.
Json values_of(const std::vector<const Record*>& points) {
  std::map<std::string, std::vector<double>> values;
  std::size_t ok = 0;
  const auto add = [&](const std::string& name, const Json& value) {
    if (value.is_number() && std::isfinite(value.get<double>())) values[name].push_back(value.get<double>());
  };
  for (const Record* point : points) {
    if (point->outcome() != Outcome::ok) continue;
    ++ok;
    for (const auto& [name, value] : point->json().items())
      if (!find_field(name) && name != "world") add(name, point->value(name));
    add("last_loss", point->value("losses.last"));
  }
  Json out = Json::object();
  Json seeds = {{"counted", ok == points.size() ? fmt::format("{}", ok) : fmt::format("{} of {}", ok, points.size())}};
  for (const auto& [name, all] : values) {
    seeds[name] = summary_of(all);
    const Json* one = points.front()->find(name);
    if (one && one->is_object()) out[name] = {{"mean", seeds[name]["mean"]}, {"stddev", seeds[name]["stddev"]}};
    if (one && !one->is_object()) out[name] = seeds[name]["mean"];
  }
  out["seeds"] = seeds;
  return out;
}

}  // namespace

std::vector<SeedGroup> by_seeds(const std::vector<const Record*>& points) {
  std::vector<std::vector<const Record*>> groups;
  std::map<std::string, std::size_t> group_of;
  for (const Record* point : points) {
    const auto [at, fresh] = group_of.emplace(key_of(*point), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(point);
  }
  std::vector<SeedGroup> found;
  for (auto& group : groups) {
    const auto ok =
        std::find_if(group.begin(), group.end(), [](const Record* p) { return p->outcome() == Outcome::ok; });
    const Record& like = ok == group.end() ? *group.front() : **ok;
    Record record = like.with_all(values_of(group));
    found.push_back({std::move(group), std::move(record)});
  }
  return found;
}

}  // namespace mbench::reports
