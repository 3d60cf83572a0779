#include "engine/spec/result.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "engine/base/fast_json.h"
#include "engine/base/json_reader.h"
#include "engine/spec/point_builder.h"

namespace mbench {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr Choices<Outcome, 8> kOutcomes = {{{"ok", Outcome::ok},
                                            {"oom", Outcome::oom},
                                            {"infeasible", Outcome::infeasible},
                                            {"unsupported", Outcome::unsupported},
                                            {"timeout", Outcome::timeout},
                                            {"crashed", Outcome::crashed},
                                            {"wrong", Outcome::wrong},
                                            {"launch_failed", Outcome::launch_failed}}};

// JSON has no NaN and no infinity: what is not finite is unknown.
ordered_json number(double x) {
  return std::isfinite(x) ? ordered_json(x) : ordered_json(nullptr);
}
ordered_json number(const std::optional<double>& x) {
  return x ? number(*x) : ordered_json(nullptr);
}
ordered_json number(const std::optional<std::int64_t>& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}
ordered_json numbers(const std::vector<double>& values) {
  ordered_json out = ordered_json::array();
  for (const double x : values) out.push_back(number(x));
  return out;
}
ordered_json numbers_or_null(const std::vector<double>& values) {
  return values.empty() ? ordered_json(nullptr) : numbers(values);
}
ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

ordered_json write_statistics(const std::optional<Statistics>& s) {
  if (!s) return nullptr;
  return {{"mean", number(s->mean)},       {"stddev", number(s->stddev)}, {"median", number(s->median)},
          {"p95", number(s->p95)},         {"min", number(s->min)},       {"max", number(s->max)},
          {"samples", numbers(s->samples)}};
}

ordered_json write_anatomy(const std::optional<MemoryAnatomy>& a) {
  if (!a) return nullptr;
  return {{"weights", number(a->weights)},     {"gradients", number(a->gradients)},
          {"optimizer", number(a->optimizer)}, {"activations", number(a->activations)},
          {"workspace", number(a->workspace)}, {"other", number(a->other)}};
}

// Reads the measures of a row. Null and missing both mean unknown.
class RowReader {
 public:
  RowReader(const json& row, const std::string& where) : row_(row), where_(where) {}
  const json* known(const char* key) const {
    const auto found = row_.find(key);
    return found == row_.end() || found->is_null() ? nullptr : &*found;
  }
  std::string path(const char* key) const { return where_ + "." + key; }
  std::optional<double> number(const char* key) const {
    const json* value = known(key);
    return value ? std::optional(read_number(*value, path(key))) : std::nullopt;
  }
  std::optional<std::int64_t> count(const char* key) const {
    const json* value = known(key);
    return value ? std::optional(read_int(*value, path(key), 0, INT64_MAX)) : std::nullopt;
  }
  std::string text(const char* key) const {
    const json* value = known(key);
    return value ? read_string(*value, path(key)) : "";
  }
  // A loss that was NaN stands as null, so where `nan_is_null` null reads as NaN; a loss may be negative.
  std::vector<double> numbers(const char* key, bool nan_is_null = false) const {
    std::vector<double> out;
    const json* value = known(key);
    if (!value) return out;
    if (!value->is_array())
      fail(ErrorKind::bad_input, path(key), "wrong type, got {}, need an array of numbers",
           short_json(*value));
    out.reserve(value->size());
    for (std::size_t i = 0; i < value->size(); ++i) {
      const json& x = (*value)[i];
      const double low = nan_is_null ? std::numeric_limits<double>::lowest() : 0;
      if (nan_is_null && x.is_null())
        out.push_back(std::numeric_limits<double>::quiet_NaN());
      else if (x.is_number_float() && x.get<double>() >= low && std::isfinite(x.get<double>()))
        out.push_back(x.get<double>());  // before any text for a message is made: there are millions
      else
        out.push_back(read_number(x, fmt::format("{}[{}]", path(key), i), low));
    }
    return out;
  }

 private:
  const json& row_;
  const std::string& where_;
};

double required_number(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::bad_input, where, "\"{}\" is missing, need a number", key);
  return read_number(*found, where + "." + key);
}

std::optional<Statistics> read_statistics(const RowReader& row, const char* key) {
  const json* value = row.known(key);
  if (!value) return std::nullopt;
  const std::string where = row.path(key);
  if (!value->is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object", short_json(*value));
  Statistics s;
  s.mean = required_number(*value, "mean", where);
  s.stddev = required_number(*value, "stddev", where);
  s.median = required_number(*value, "median", where);
  s.p95 = required_number(*value, "p95", where);
  s.min = required_number(*value, "min", where);
  s.max = required_number(*value, "max", where);
  s.samples = RowReader(*value, where).numbers("samples");
  return s;
}

std::optional<MemoryAnatomy> read_anatomy(const RowReader& row, const char* key) {
  const json* value = row.known(key);
  if (!value) return std::nullopt;
  const std::string where = row.path(key);
  if (!value->is_object())
    fail(ErrorKind::bad_input, where, "wrong type, got {}, need an object", short_json(*value));
  MemoryAnatomy a;
  a.weights = required_number(*value, "weights", where);
  a.gradients = required_number(*value, "gradients", where);
  a.optimizer = required_number(*value, "optimizer", where);
  a.activations = required_number(*value, "activations", where);
  a.workspace = required_number(*value, "workspace", where);
  a.other = required_number(*value, "other", where);
  return a;
}

}  // namespace

std::string_view name_of(Outcome v) {
  return choice_name(v, kOutcomes);
}

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

std::optional<Outcome> outcome_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::out_of_memory:
      return Outcome::oom;
    case ErrorKind::infeasible:
      return Outcome::infeasible;
    case ErrorKind::unsupported:
      return Outcome::unsupported;
    case ErrorKind::timed_out:
      return Outcome::timeout;
    case ErrorKind::wrong:
      return Outcome::wrong;
    case ErrorKind::launch_failed:
      return Outcome::launch_failed;
    default:
      return std::nullopt;
  }
}

ordered_json result_to_json(const PointResult& r) {
  ordered_json out = ordered_json::object();
  // Appended, in room made beforehand: out[key] would look through all keys before it, and a growing
  // ordered_json copies what it holds. There may be thousands of results.
  auto& members = out.get_ref<ordered_json::object_t&>();
  members.reserve(point_keys().size() + 40);
  const auto add = [&](const char* key, ordered_json value) { members.emplace_back(key, std::move(value)); };
  add("id", r.id);
  ordered_json configuration = point_to_json(r.point);
  for (auto& [key, value] : configuration.get_ref<ordered_json::object_t&>())
    members.emplace_back(key, std::move(value));
  add("device_name", text_or_null(r.device == r.point.device ? "" : r.device));
  add("world", r.world);
  add("simulated", r.simulated);
  add("outcome", name_of(r.outcome));
  add("reason", text_or_null(r.reason));
  add("iteration_ms", write_statistics(r.iteration_ms));
  ordered_json rate;
  if (r.samples_per_s)
    rate = {{"mean", number(*r.samples_per_s)}, {"stddev", number(r.samples_per_s_stddev)}};
  add("samples_per_s", std::move(rate));
  add("tokens_per_s", number(r.tokens_per_s));
  add("tflops_per_device", number(r.tflops_per_device));
  add("mfu", number(r.mfu));
  add("mfu_causal", number(r.mfu_causal));
  add("hfu", number(r.hfu));
  add("peak_tflops", number(r.peak_tflops));
  add("peak_source", text_or_null(r.peak_source));
  add("peak_memory_mib", number(r.peak_memory_mib));
  add("peak_memory_by_rank_mib", numbers_or_null(r.peak_memory_by_rank_mib));
  add("memory_anatomy_mib", write_anatomy(r.memory_anatomy_mib));
  add("reserved_memory_mib", number(r.reserved_memory_mib));
  add("device_memory_mib", number(r.device_memory_mib));
  add("library_memory_mib", number(r.library_memory_mib));
  add("communication_fraction", number(r.communication_fraction));
  add("bubble_fraction", number(r.bubble_fraction));
  add("losses", numbers_or_null(r.losses));
  add("gradient_norms", numbers_or_null(r.gradient_norms));
  add("skipped_steps", number(r.skipped_steps));
  add("parameters", number(r.parameters));
  add("power_w", number(r.power_w));
  add("utilization", number(r.utilization));
  add("clock_mhz", number(r.clock_mhz));
  add("throttle_reasons", text_or_null(r.throttle_reasons));
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
    fail(ErrorKind::bad_input, where,
         "\"outcome\" is missing, need one of ok, oom, infeasible, unsupported, "
         "timeout, crashed, wrong, launch_failed");
  r.outcome = read_choice(*row.known("outcome"), row.path("outcome"), kOutcomes);
  // Keys that are no fields of a point are measures, or come from a newer minor version.
  PointBuilder builder;
  for (const std::string& key : point_keys())
    if (value.contains(key)) builder.set(key, value.at(key), where + "." + key);
  r.point = builder.finish(where);
  r.device = row.text("device_name");
  if (r.device.empty()) r.device = r.point.device;
  r.world = row.count("world").value_or(r.point.world());
  if (const json* simulated = row.known("simulated"))
    r.simulated = read_bool(*simulated, row.path("simulated"));
  r.reason = row.text("reason");
  r.iteration_ms = read_statistics(row, "iteration_ms");
  if (const json* rate = row.known("samples_per_s")) {
    const std::string path = row.path("samples_per_s");
    if (!rate->is_object())
      fail(ErrorKind::bad_input, path, "wrong type, got {}, need an object", short_json(*rate));
    r.samples_per_s = required_number(*rate, "mean", path);
    r.samples_per_s_stddev = RowReader(*rate, path).number("stddev");
  }
  r.tokens_per_s = row.number("tokens_per_s");
  r.tflops_per_device = row.number("tflops_per_device");
  r.mfu = row.number("mfu");
  r.mfu_causal = row.number("mfu_causal");
  r.hfu = row.number("hfu");
  r.peak_tflops = row.number("peak_tflops");
  r.peak_source = row.text("peak_source");
  r.peak_memory_mib = row.number("peak_memory_mib");
  r.peak_memory_by_rank_mib = row.numbers("peak_memory_by_rank_mib");
  r.memory_anatomy_mib = read_anatomy(row, "memory_anatomy_mib");
  r.reserved_memory_mib = row.number("reserved_memory_mib");
  r.device_memory_mib = row.number("device_memory_mib");
  r.library_memory_mib = row.number("library_memory_mib");
  r.communication_fraction = row.number("communication_fraction");
  r.bubble_fraction = row.number("bubble_fraction");
  r.losses = row.numbers("losses", true);
  r.gradient_norms = row.numbers("gradient_norms", true);
  r.skipped_steps = row.count("skipped_steps");
  r.parameters = row.count("parameters");
  r.power_w = row.number("power_w");
  r.utilization = row.number("utilization");
  r.clock_mhz = row.number("clock_mhz");
  r.throttle_reasons = row.text("throttle_reasons");
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
      fail(ErrorKind::bad_input, where + ".id",
           "stands twice, got \"{}\" as in $.points[{}], need each id once", other->first, other->second);
    points_.push_back(std::move(point));
  }
  std::vector<PointResult> take() { return std::move(points_); }

 private:
  std::string top_;
  std::vector<PointResult> points_;
  std::unordered_map<std::string, std::size_t> seen_;
};

// A result file as mbench writes it, point by point; nothing if it is anything else, which is then for the
// general parser to read or to refuse.
std::optional<ResultFile> read_plain(std::string_view text, const std::string& top) {
  FastJson in(text);
  ResultFile file;
  std::set<std::string> keys;
  if (!in.take('{')) return std::nullopt;
  do {
    std::string key;
    if (!in.string(key) || !in.take(':') || !keys.insert(key).second) return std::nullopt;
    if (key == "points") {
      if (!keys.count("schema") || !in.take('[')) return std::nullopt;
      PointList points(top);
      json row;
      if (!in.take(']')) {
        do {
          if (!in.value(row)) return std::nullopt;
          points.add(row);
        } while (in.take(','));
        if (!in.take(']')) return std::nullopt;
      }
      file.points = points.take();
      continue;
    }
    ordered_json value;
    if (!in.value(value)) return std::nullopt;
    if (key == "schema" && !(value.is_string() && is_our_schema(value.get<std::string>())))
      return std::nullopt;
    if (key == "spec") file.spec = std::move(value);
    if (key == "environment") file.environment = std::move(value);
  } while (in.take(','));
  if (!in.take('}') || !in.at_end() || !keys.count("points")) return std::nullopt;
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
    fail(ErrorKind::bad_input, top + ".schema", "another schema, got \"{}\", need \"{}\"", name,
         ResultFile::kSchema);
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

void write_result_file(const std::string& path, const ResultFile& file) {
  ordered_json root = {
      {"schema", ResultFile::kSchema}, {"spec", file.spec}, {"environment", file.environment}};
  root["points"] = ordered_json::array();
  for (const PointResult& r : file.points) root["points"].push_back(result_to_json(r));
  write_file_atomically(path, dump_json(root));
}

}  // namespace mbench
