#include "include/mbench/result.h"

#include "api/state.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/metrics.h"
#include "engine/point/result_file.h"
#include "reports/tables/report.h"

namespace mbench {
namespace {

const Metric& find_metric(const std::string& name) {
  std::vector<std::string> names;
  for (const Metric& metric : metrics()) {
    if (metric.name == name) return metric;
    names.push_back(metric.name);
  }
  fail(ErrorKind::bad_input, "metric", "{}", nearest_choice(name, names));
}

template <class Anatomy, class Part>
std::map<std::string, double> by_name(const std::optional<Anatomy>& anatomy, int parts) {
  std::map<std::string, double> all;
  if (!anatomy) return all;
  for (int i = 0; i < parts; ++i) all[std::string(name_of(static_cast<Part>(i)))] = (*anatomy)[static_cast<Part>(i)];
  return all;
}

ResultFile file_of(const Spec& spec, const std::vector<Result>& rows) {
  ResultFile file;
  file.spec = spec.state().spec.json;
  if (!rows.empty()) file.environment = rows.front().state().environment;
  for (const Result& row : rows) file.points.push_back(row.state().result);
  return file;
}

}  // namespace

Result api::make_result(PointResult result, const std::string& label, const nlohmann::ordered_json& environment) {
  return Result(std::make_shared<const Result::State>(Result::State{std::move(result), label, environment}));
}

std::string Result::id() const {
  return state_->result.id;
}
std::string Result::label() const {
  return state_->label;
}
std::string Result::outcome() const {
  return std::string(name_of(state_->result.outcome));
}
bool Result::ok() const {
  return state_->result.outcome == Outcome::ok;
}
std::string Result::reason() const {
  return state_->result.reason;
}

std::optional<double> Result::metric(const std::string& name) const {
  const auto value = find_metric(name).write(state_->result);
  if (value.is_number()) return value.get<double>();
  if (value.is_object() && value.contains("mean") && value.at("mean").is_number())
    return value.at("mean").get<double>();
  return std::nullopt;
}

std::map<std::string, double> Result::time_ms() const {
  return by_name<TimeAnatomy, TimePart>(state_->result.time_anatomy_ms, kTimeParts);
}

std::map<std::string, double> Result::memory_mib() const {
  return by_name<MemoryAnatomy, Category>(state_->result.memory_anatomy_mib, kCategories);
}

std::optional<Expected> Result::expected() const {
  const auto& interval = state_->result.iteration_ms_interval;
  if (!interval) return std::nullopt;
  return Expected{interval->low, interval->high, static_cast<int>(interval->rows), interval->about};
}

std::string Result::json() const {
  return dump_json(result_to_json(state_->result));
}

std::string tables(const Spec& spec, const std::vector<Result>& rows, const TableOptions& options) {
  reports::ReportOptions how;
  how.format = options.format;
  how.tables = options.tables;
  how.columns = options.columns;
  return reports::render_report(file_of(spec, rows), how);
}

void write_results(const std::string& path, const Spec& spec, const std::vector<Result>& rows) {
  write_result_file(path, file_of(spec, rows));
}

}  // namespace mbench
