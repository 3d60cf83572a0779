#include "engine/point/result.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "engine/base/atomic_file.h"
#include "engine/base/json_reader.h"
#include "engine/base/simd_json.h"
#include "engine/point/field_table.h"
#include "engine/point/metrics.h"
#include "engine/point/point_builder.h"
#include "engine/point/result_file.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

std::vector<std::string> outcome_names() {
  std::vector<std::string> names;
  for (const OutcomeTraits& traits : outcomes()) names.emplace_back(traits.name);
  return names;
}

Outcome read_outcome(const json& value, const std::string& where) {
  if (value.is_string())
    if (const auto outcome = outcome_named(value.get_ref<const std::string&>())) return *outcome;
  fail(ErrorKind::bad_input, where, "no such choice, got {}, {}", short_json(value),
       nearest_choice(value.is_string() ? value.get<std::string>() : value.dump(), outcome_names()));
}

// What is told of a result beside its point and its measures. Null and missing both mean unknown.
class RowReader {
 public:
  RowReader(const json& row, const std::string& where) : row_(row), where_(where) {}
  const json* known(const std::string& key) const {
    const auto found = row_.find(key);
    return found == row_.end() || found->is_null() ? nullptr : &*found;
  }
  std::string path(const std::string& key) const { return where_ + "." + key; }
  std::string text(const char* key) const {
    const json* value = known(key);
    return value ? read_string(*value, path(key)) : "";
  }

 private:
  const json& row_;
  const std::string& where_;
};

std::map<std::string, std::string> read_variables(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object of names and texts", short_json(value));
  std::map<std::string, std::string> variables;
  for (const auto& [name, text] : value.items()) variables[name] = read_string(text, where + "." + name);
  return variables;
}

}  // namespace

Statistics statistics_of(std::vector<double> samples) {
  check(!samples.empty(), "statistics_of", "no samples, need at least one");
  Statistics s;
  const double n = static_cast<double>(samples.size());
  for (const double x : samples) s.mean += x / n;
  for (const double x : samples) s.stddev += (x - s.mean) * (x - s.mean);
  s.stddev = samples.size() > 1 ? std::sqrt(s.stddev / (n - 1)) : 0;
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  // Rank q * (n - 1), counted from 0, linearly between its neighbours.
  const auto quantile = [&](double q) {
    const double rank = q * (n - 1);
    const auto below = static_cast<std::size_t>(rank);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
  };
  s.median = quantile(0.5);
  s.p95 = quantile(0.95);
  s.min = sorted.front();
  s.max = sorted.back();
  s.samples = std::move(samples);
  return s;
}

StepParts parts_of(const std::vector<double>& steps) {
  check(!steps.empty(), "parts_of", "no steps, need at least one");
  const auto median = [](std::vector<double> x) { return statistics_of(std::move(x)).median; };
  StepParts reported;
  reported.median = median(steps);
  std::vector<double> distances;
  for (const double x : steps) distances.push_back(std::abs(x - reported.median));
  reported.spread = 1.4826 * median(std::move(distances));
  const std::size_t count = std::min(steps.size(), StepParts::kMost);
  const auto at = [&](std::size_t i) { return steps.begin() + static_cast<std::ptrdiff_t>(i * steps.size() / count); };
  for (std::size_t i = 0; i < count; ++i) reported.parts.push_back(median({at(i), at(i + 1)}));
  return reported;
}

PointResult not_run(const Point& point, Outcome outcome, const std::string& reason) {
  PointResult r;
  r.point = point;
  r.id = point_id(point);
  r.world = point.world();
  r.device = point.device;
  r.simulated = point.simulated();
  r.outcome = outcome;
  r.reason = reason;
  return r;
}

ordered_json result_to_json(const PointResult& r) {
  ordered_json out = ordered_json::object();
  // Appended, in room made beforehand: out[key] would look through all keys before it, and a growing
  // ordered_json copies what it holds. There may be thousands of results.
  auto& members = out.get_ref<ordered_json::object_t&>();
  members.reserve(point_keys().size() + metrics().size() + 8);
  const auto add = [&](const std::string& key, ordered_json value) { members.emplace_back(key, std::move(value)); };
  add("id", r.id);
  ordered_json configuration = point_to_json(r.point);
  for (auto& [key, value] : configuration.get_ref<ordered_json::object_t&>())
    members.emplace_back(key, std::move(value));
  add("device_name", text_or_null(r.device == r.point.device ? "" : r.device));
  add("world", r.world);
  add("simulated", r.simulated);
  if (!r.measured_by.empty()) add("measured_by", r.measured_by);
  if (r.log) add("log", trainer_log_to_json(*r.log));
  add("outcome", name_of(r.outcome));
  add("reason", text_or_null(r.reason));
  add("hosts", r.hosts.empty() ? ordered_json(nullptr) : hosts_to_json(r.hosts));
  add("variables", r.variables.empty() ? ordered_json(nullptr) : ordered_json(r.variables));
  for (const Metric& metric : metrics()) add(metric.name, metric.write(r));
  return out;
}

PointResult result_from_json(const json& value, const std::string& where) {
  if (!value.is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need the object of one point", short_json(value));
  const RowReader row(value, where);
  PointResult r;
  r.id = row.text("id");
  if (r.id.empty()) fail(ErrorKind::bad_input, where, "\"id\" is missing, need the id of the point");
  if (!row.known("outcome"))
    fail(ErrorKind::bad_input, where, "\"outcome\" is missing, need one of {}", fmt::join(outcome_names(), ", "));
  r.outcome = read_outcome(*row.known("outcome"), row.path("outcome"));
  // Keys that are no fields of a point are measures, or come from a newer minor version.
  PointBuilder builder;
  for (const std::string& key : point_keys())
    if (value.contains(key)) builder.set(key, value.at(key), where + "." + key);
  for (const Field& former : former_fields())
    if (const std::string& key = former.about.key; value.contains(key))
      builder.set(key, value.at(key), where + "." + key);
  r.point = builder.finish(where);
  r.device = row.text("device_name");
  if (r.device.empty()) r.device = r.point.device;
  const json* world = row.known("world");
  r.world = world ? read_int(*world, row.path("world"), 0, INT64_MAX) : r.point.world();
  if (const json* simulated = row.known("simulated")) r.simulated = read_bool(*simulated, row.path("simulated"));
  r.reason = row.text("reason");
  r.measured_by = row.text("measured_by");
  if (const json* log = row.known("log")) r.log = trainer_log_from_json(*log, row.path("log"));
  if (const json* hosts = row.known("hosts")) r.hosts = hosts_from_json(*hosts, row.path("hosts"));
  if (const json* variables = row.known("variables")) r.variables = read_variables(*variables, row.path("variables"));
  for (const Metric& metric : metrics())
    if (const json* value = row.known(metric.name)) metric.read(r, *value, row.path(metric.name));
  return r;
}

namespace {

// A newer minor version ("/1.2") only adds fields; another major one changes their meaning.
bool is_our_schema(const std::string& name) {
  return name == ResultFile::kSchema || name.starts_with(std::string(ResultFile::kSchema) + ".");
}

// Points as they are read, each id once.
class PointList {
 public:
  explicit PointList(std::string top) : top_(std::move(top)) {}
  void add(const json& row) {
    const std::string where = fmt::format("{}.points[{}]", top_, points_.size());
    PointResult point = result_from_json(row, where);
    const auto [other, fresh] = seen_.emplace(point.id, points_.size());
    if (!fresh)
      fail(ErrorKind::bad_input, where + ".id", "stands twice, got \"{}\" as in $.points[{}], need each id once",
           other->first, other->second);
    points_.push_back(std::move(point));
  }
  std::vector<PointResult> take() { return std::move(points_); }

 private:
  std::string top_;
  std::vector<PointResult> points_;
  std::unordered_map<std::string, std::size_t> seen_;
};

// A result file as mbench writes it, point by point, so that one point at a time stands in memory as a tree; nothing if
// it is anything else, which is then for the general parser to read or to refuse.
std::optional<ResultFile> read_plain(const std::string& text, const std::string& top) {
  simdjson::dom::parser parser;
  if (parser.allocate(text.size(), kMostDepth) != simdjson::SUCCESS) return std::nullopt;
  simdjson::dom::object root;
  if (parser.parse(text).get(root) != simdjson::SUCCESS) return std::nullopt;
  ResultFile file;
  std::set<std::string_view> keys;
  for (const auto [key, value] : root) {
    if (!keys.insert(key).second) return std::nullopt;
    if (key == "schema") {
      std::string_view name;
      if (value.get(name) != simdjson::SUCCESS || !is_our_schema(std::string(name))) return std::nullopt;
    } else if (key == "points") {
      simdjson::dom::array rows;
      if (!keys.contains("schema") || value.get(rows) != simdjson::SUCCESS) return std::nullopt;
      PointList points(top);
      json row;
      for (const simdjson::dom::element element : rows) {
        if (!from_simdjson(element, row)) return std::nullopt;
        points.add(row);
      }
      file.points = points.take();
    } else {
      ordered_json other;
      if (!from_simdjson(value, other)) return std::nullopt;
      if (key == "spec") file.spec = std::move(other);
      if (key == "environment") file.environment = std::move(other);
    }
  }
  if (!keys.contains("points")) return std::nullopt;
  return file;
}

}  // namespace

ResultFile read_result_file(const std::string& path) {
  const std::string text = read_text_file(path);
  const std::string top = path + ": $";
  if (std::optional<ResultFile> file = read_plain(text, top)) return std::move(*file);
  const ordered_json root = parse_json(text, path);
  if (!root.is_object()) fail(ErrorKind::bad_input, top, "wrong type, need the object of a result file");
  const auto schema = root.find("schema");
  if (schema == root.end() || !schema->is_string())
    fail(ErrorKind::bad_input, top, "\"schema\" is missing, need \"{}\": is this a result file of mbench?",
         ResultFile::kSchema);
  const auto name = schema->get<std::string>();
  if (!is_our_schema(name))
    fail(ErrorKind::bad_input, top + ".schema", "another schema, got \"{}\", need \"{}\"", name, ResultFile::kSchema);
  ResultFile file;
  if (root.contains("spec")) file.spec = root.at("spec");
  if (root.contains("environment")) file.environment = root.at("environment");
  const auto rows = root.find("points");
  if (rows == root.end() || !rows->is_array())
    fail(ErrorKind::bad_input, top, "\"points\" is missing, need an array of points");
  PointList points(top);
  for (const ordered_json& row : *rows) points.add(json(row));
  file.points = points.take();
  return file;
}

std::string result_file_text(const ResultFile& file) {
  ordered_json root = {{"schema", ResultFile::kSchema}, {"spec", file.spec}, {"environment", file.environment}};
  root["points"] = ordered_json::array();
  for (const PointResult& r : file.points) root["points"].push_back(result_to_json(r));
  return dump_json(root);
}

void write_result_file(const std::string& path, const ResultFile& file) {
  write_file_atomically(path, result_file_text(file));
}

}  // namespace mbench
