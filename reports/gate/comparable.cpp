#include "reports/gate/comparable.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/point/fields.h"
#include "engine/point/point_builder.h"
#include "engine/point/result_file.h"
#include "reports/records/record.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

// What must be equal where anything was measured.
constexpr const char* kHardware[] = {"cpu", "cores", "device"};

// What a stored baseline does not say (baseline.h), so that its absence there is no change.
constexpr std::string_view kUnstored[] = {"host", "cpu", "cores", "device", "memory_bytes", "flop_formula", "launcher"};

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
  point.model = ModelSpec();
  point.precision = Precision::f32;
  return point_id(point);
}

// Over how many hosts a measured point was spread, "2 nodes of 4 ranks"; what does not say it, as older files do not, ran on one.
std::string spread_of(const PointResult& point) {
  if (point.hosts.size() < 2) return "1 node";
  return fmt::format("{} nodes of {} ranks", point.hosts.size(), ranks_per_node(point.hosts));
}

std::string refusal(const char* key, const Json& now, const Json& base) {
  return fmt::format("environment.{} is {} here and {} in the baseline", key, now.dump(), base.dump());
}

}  // namespace

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
  std::vector<std::string> differing;
  for (const std::string& key : point_keys()) {
    const auto a = values(now, key), b = values(baseline, key);
    if (std::any_of(a.begin(), a.end(), [&](const auto& v) { return std::find(b.begin(), b.end(), v) != b.end(); }))
      continue;
    out += fmt::format("{}{} is {} here and {} there", out.empty() ? "" : ", ", key, fmt::join(a, " or "),
                       fmt::join(b, " or "));
    differing.push_back(key);
  }
  if (differing == std::vector<std::string>{"env"}) out += "; need --allow-different env to compare these";
  return out.empty() ? "no combination of fields occurs in both" : out;
}

std::string id_without(const Point& point, const std::vector<std::string>& fields) {
  static const Point plain;
  Point rest = point;
  for (const std::string& field : fields)
    set_point_field(rest, field, nlohmann::json(point_field(plain, field)), field);
  return point_id(rest);
}

Matches match_points(const ResultFile& now, const ResultFile& baseline,
                     const std::vector<std::string>& allow_different) {
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
  if (!allow_different.empty()) {
    std::unordered_multimap<std::string, std::size_t> by_rest;
    for (std::size_t i = baseline.points.size(); i-- > 0;)
      if (!used[i]) by_rest.emplace(id_without(baseline.points[i].point, allow_different), i);
    for (std::size_t i = 0; i < now.points.size(); ++i) {
      if (matches.same[i]) continue;
      const auto it = by_rest.find(id_without(now.points[i].point, allow_different));
      if (it == by_rest.end()) continue;
      matches.same[i] = &baseline.points[it->second];
      used[it->second] = true;
      by_rest.erase(it);  // one for each
    }
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

Comparability::Comparability(const Json& now, const Json& baseline, bool same_machine) : same_machine_(same_machine) {
  const auto differs = [&](const char* key) {
    const Json a = value_of(now, key), b = value_of(baseline, key);
    return a == b ? std::string() : refusal(key, a, b);
  };
  if (formula_ = differs("flop_formula_version"); !formula_.empty()) formula_ += ", need one FLOP formula";
  for (const char* key : kHardware) {
    if (!hardware_.empty() || (!same_machine && key != std::string_view("device"))) continue;
    if (hardware_ = differs(key); !hardware_.empty()) hardware_ += ", need the same hardware";
  }
}

std::string Comparability::why_not(const PointResult& now, const PointResult& base) const {
  for (const auto& [row, where] : {std::pair(&now, "here"), std::pair(&base, "in the baseline")})
    if (row->outcome == Outcome::partial) return fmt::format("the point was cut short {}: {}", where, row->reason);
  if (now.simulated != base.simulated)
    return now.simulated ? "simulated here, measured in the baseline: a simulation is no measurement"
                         : "measured here, simulated in the baseline: a simulation is no baseline for a measurement";
  if (now.measured_by != base.measured_by) {
    const auto by = [](const PointResult& row) {
      return row.measured_by.empty() ? std::string("mbench") : row.measured_by;
    };
    return fmt::format("measured by {} here, by {} in the baseline", by(now), by(base));
  }
  if (kind_of(now.point.device) != kind_of(base.point.device) ||
      (now.simulated && now.point.device != base.point.device))
    return fmt::format("device is {} here, {} in the baseline", now.point.device, base.point.device);
  if (now.point.model != base.point.model)
    return fmt::format("model is {} here, {} in the baseline", text_of(point_to_json(now.point).at("model")),
                       text_of(point_to_json(base.point).at("model")));
  if (now.point.precision != base.point.precision)
    return fmt::format("precision is {} here, {} in the baseline", name_of(now.point.precision),
                       name_of(base.point.precision));
  // A CPU's name is its machine's, which does not matter to its memory.
  if (now.device != base.device && (same_machine_ || kind_of(now.point.device) != "cpu"))
    return fmt::format("the device is {} here, {} in the baseline", now.device, base.device);
  if (!formula_.empty()) return formula_;
  if (same_machine_ && !now.simulated && spread_of(now) != spread_of(base))
    return fmt::format("it ran on {} here, on {} in the baseline", spread_of(now), spread_of(base));
  return now.simulated ? "" : hardware_;  // a simulation does not depend on the machine it was computed on
}

void refuse_unlike_files(const ResultFile& now, const ResultFile& baseline, const Matches& matches,
                         const Comparability& comparability) {
  if (now.points.empty() || baseline.points.empty())
    fail(ErrorKind::bad_input, "compare", "nothing to compare, got {} points against {} of the baseline",
         now.points.size(), baseline.points.size());
  std::string reason;
  for (std::size_t i = 0; i < matches.same.size(); ++i) {
    const PointResult* base = matches.same[i] ? matches.same[i] : matches.alike[i];
    if (!base) continue;
    const std::string why = comparability.why_not(now.points[i], *base);
    if (why.empty()) return;
    if (reason.empty()) reason = why;
  }
  if (reason.empty())
    fail(ErrorKind::bad_input, "compare", "no point of the new results is in the baseline: {}",
         nothing_in_common(now, baseline));
  fail(ErrorKind::bad_input, "compare", "not comparable, {}", reason);
}

nlohmann::json machine_of(const Json& environment, const PointResult& point) {
  if (point.simulated) return {{"simulated", point.point.device}};
  nlohmann::json machine = nlohmann::json::object();
  for (const char* key : kHardware) machine[key] = value_of(environment, key);
  if (!point.measured_by.empty()) machine["measured_by"] = point.measured_by;
  if (point.hosts.size() > 1) {
    machine["nodes"] = point.hosts.size();
    machine["ranks_per_node"] = ranks_per_node(point.hosts);
  }
  return machine;
}

std::string fingerprint_of(const nlohmann::json& machine) {
  const auto text = [&](const char* key) {
    if (!machine.contains(key) || machine.at(key).is_null()) return std::string();
    return machine.at(key).is_string() ? machine.at(key).get<std::string>() : machine.at(key).dump();
  };
  std::string words = machine.contains("cpu") || machine.contains("simulated") ? "" : "any " + text("device") + " ";
  words += text("simulated") + " " + text("cpu");
  if (const std::string cores = text("cores"); !cores.empty()) words += " " + cores + " cores";
  if (text("device") != "cpu" && machine.contains("cpu")) words += " " + text("device");
  if (machine.contains("nodes")) words += " " + text("nodes") + " nodes of " + text("ranks_per_node");
  std::string slug;
  for (const char c : words) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) && static_cast<unsigned char>(c) < 0x80;
    if (plain)
      slug += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
  }
  if (slug.size() > 60) slug.resize(60);
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return fmt::format("{}{}{:08x}", slug, slug.empty() ? "" : "-", fnv1a(machine.dump()) & 0xffffffffu);
}

std::vector<std::string> environment_changes(const ResultFile& now, const ResultFile& baseline) {
  std::vector<std::string> changes;
  const auto note = [&](const std::string& key) {
    if (key == "started" || key == "finished" || key == "search") return;  // of course
    const Json a = value_of(now.environment, key.c_str()), b = value_of(baseline.environment, key.c_str());
    if (b.is_null() && std::find(std::begin(kUnstored), std::end(kUnstored), key) != std::end(kUnstored)) return;
    if (a != b) changes.push_back(fmt::format("{}: {}, was {}", key, text_of(a), text_of(b)));
  };
  if (now.environment.is_object())
    for (const auto& [key, value] : now.environment.items()) note(key);
  if (baseline.environment.is_object())
    for (const auto& [key, value] : baseline.environment.items())
      if (value_of(now.environment, key.c_str()).is_null()) note(key);
  return changes;
}

}  // namespace mbench::reports
