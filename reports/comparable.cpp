#include "reports/comparable.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "engine/base/error.h"
#include "reports/record.h"

namespace mbench {
namespace {

using Json = nlohmann::ordered_json;

// What must be equal where anything was measured.
constexpr const char* kHardware[] = {"cpu", "cores", "device"};

Json value_of(const Json& environment, const char* key) {
  return environment.is_object() && environment.contains(key) ? environment[key] : Json(nullptr);
}

std::string kind_of(const std::string& device) {
  return device.substr(0, device.find(':'));
}

// A point's configuration without what makes two runs of it incomparable.
std::string configuration(const PointResult& result) {
  Point point = result.point;
  point.device.clear();
  point.precision = Precision::f32;
  return point_id(point);
}

std::string refusal(const char* key, const Json& now, const Json& base) {
  return fmt::format("environment.{} is {} in the new results and {} in the baseline", key, now.dump(),
                     base.dump());
}

// Which field keeps every point of one file from being one of the other, for the message.
std::string nothing_in_common(const ResultFile& now, const ResultFile& baseline) {
  const auto values = [](const ResultFile& file, const std::string& key) {
    std::vector<std::string> texts;
    for (const PointResult& p : file.points) {
      std::string text = text_of(point_to_json(p.point).at(key));
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(std::move(text));
    }
    return texts;
  };
  std::string out;
  for (const std::string& key : point_keys()) {
    const auto a = values(now, key), b = values(baseline, key);
    if (std::any_of(a.begin(), a.end(),
                    [&](const auto& v) { return std::find(b.begin(), b.end(), v) != b.end(); }))
      continue;
    out += fmt::format("{}{} is {} here and {} there", out.empty() ? "" : ", ", key, fmt::join(a, " or "),
                       fmt::join(b, " or "));
  }
  return out.empty() ? "no combination of fields occurs in both" : out;
}

}  // namespace

Matches match_points(const ResultFile& now, const ResultFile& baseline) {
  std::unordered_map<std::string, std::size_t> by_id, by_configuration;
  for (std::size_t i = 0; i < baseline.points.size(); ++i) by_id.emplace(baseline.points[i].id, i);
  Matches matches;
  matches.same.resize(now.points.size());
  matches.alike.resize(now.points.size());
  std::vector<bool> used(baseline.points.size());
  for (std::size_t i = 0; i < now.points.size(); ++i)
    if (const auto it = by_id.find(now.points[i].id); it != by_id.end()) {
      matches.same[i] = &baseline.points[it->second];
      used[it->second] = true;
    }
  for (std::size_t i = 0; i < baseline.points.size(); ++i)
    if (!used[i]) by_configuration.emplace(configuration(baseline.points[i]), i);
  for (std::size_t i = 0; i < now.points.size() && !by_configuration.empty(); ++i) {
    if (matches.same[i]) continue;
    const auto it = by_configuration.find(configuration(now.points[i]));
    if (it == by_configuration.end() || used[it->second]) continue;
    matches.alike[i] = &baseline.points[it->second];
    used[it->second] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i]) matches.missing.push_back(i);
  return matches;
}

std::string why_points_not_comparable(const PointResult& now, const PointResult& base) {
  if (now.simulated != base.simulated)
    return now.simulated ? "simulated here, measured in the baseline"
                         : "measured here, simulated in the baseline";
  if (kind_of(now.point.device) != kind_of(base.point.device) ||
      (now.simulated && now.point.device != base.point.device))
    return fmt::format("device is {} here, {} in the baseline", now.point.device, base.point.device);
  if (now.point.precision != base.point.precision)
    return fmt::format("precision is {} here, {} in the baseline", name_of(now.point.precision),
                       name_of(base.point.precision));
  if (now.device != base.device)
    return fmt::format("the device is {} here, {} in the baseline", now.device, base.device);
  return "";
}

void refuse_unlike_files(const ResultFile& now, const ResultFile& baseline, const Matches& matches) {
  if (now.points.empty() || baseline.points.empty())
    fail(ErrorKind::bad_input, "compare", "nothing to compare, got {} points against {} of the baseline",
         now.points.size(), baseline.points.size());
  const Json formula = value_of(now.environment, "flop_formula_version");
  if (const Json other = value_of(baseline.environment, "flop_formula_version"); formula != other)
    fail(ErrorKind::bad_input, "compare", "not comparable, {}, need one FLOP formula",
         refusal("flop_formula_version", formula, other));
  std::size_t comparable = 0, measured = 0, matched = 0;
  std::string reason;
  for (std::size_t i = 0; i < matches.same.size(); ++i) {
    const PointResult* base = matches.same[i] ? matches.same[i] : matches.alike[i];
    if (!base) continue;
    ++matched;
    const std::string why = why_points_not_comparable(now.points[i], *base);
    if (why.empty())
      ++comparable, measured += now.points[i].simulated ? 0 : 1;
    else if (reason.empty())
      reason = why;
  }
  if (matched == 0)
    fail(ErrorKind::bad_input, "compare", "no point of the new results is in the baseline: {}",
         nothing_in_common(now, baseline));
  if (comparable == 0) fail(ErrorKind::bad_input, "compare", "not comparable, {}", reason);
  if (measured == 0) return;  // a simulation does not depend on the machine it was computed on
  for (const char* key : kHardware) {
    const Json a = value_of(now.environment, key), b = value_of(baseline.environment, key);
    if (a != b)
      fail(ErrorKind::bad_input, "compare", "not comparable, {}, need the same hardware", refusal(key, a, b));
  }
}

std::vector<std::string> environment_changes(const ResultFile& now, const ResultFile& baseline) {
  std::vector<std::string> changes;
  const auto note = [&](const std::string& key) {
    if (key == "started" || key == "finished") return;  // of course
    const Json a = value_of(now.environment, key.c_str()), b = value_of(baseline.environment, key.c_str());
    if (a != b) changes.push_back(fmt::format("{}: {}, was {}", key, text_of(a), text_of(b)));
  };
  if (now.environment.is_object())
    for (const auto& [key, value] : now.environment.items()) note(key);
  if (baseline.environment.is_object())
    for (const auto& [key, value] : baseline.environment.items())
      if (value_of(now.environment, key.c_str()).is_null()) note(key);
  return changes;
}

}  // namespace mbench
