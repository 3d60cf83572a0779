#include "formats/logs/mlperf.h"

#include <cmath>

#include "engine/base/json_reader.h"
#include "formats/logs/reader.h"

namespace mbench::formats {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = ":::MLLOG";

std::optional<double> number_of(const json& object, std::string_view key) {
  if (!object.is_object()) return std::nullopt;
  const auto found = object.find(std::string(key));
  return found != object.end() && found->is_number() ? std::optional<double>(found->get<double>()) : std::nullopt;
}

// How many samples were trained, by the words of different rounds of MLPerf.
std::optional<double> samples_of(const json& metadata) {
  for (const char* key : {"samples_count", "epoch_num", "first_epoch_num"})
    if (const auto found = number_of(metadata, key)) return found;
  return std::nullopt;
}

}  // namespace

// Several figures may be said of one step, one line each.
LoggedStep* MlperfReader::step_of(const json& metadata) {
  std::optional<double> number = number_of(metadata, "step");
  if (!number && log_.global_batch)
    if (const auto samples = samples_of(metadata)) number = *samples / static_cast<double>(*log_.global_batch);
  const auto counted = number ? count_of(*number) : std::nullopt;
  if (!counted) return nullptr;
  const std::int64_t step = *counted;
  if (!log_.steps.empty() && log_.steps.back().step == step) return &log_.steps.back();
  if (!log_.steps.empty() && log_.steps.back().step > step) return nullptr;
  if (log_.steps.size() >= kMostSteps) fail(ErrorKind::bad_input, "log", "has more than {} steps", kMostSteps);
  LoggedStep fresh;
  fresh.step = step;
  fresh.first = log_.steps.empty();
  log_.steps.push_back(fresh);
  return &log_.steps.back();
}

// The time between its ends over the steps of its samples: evaluations are outside.
void MlperfReader::end_block(double time_ms, std::optional<double> samples) {
  if (begun_ms_ && begun_samples_ && samples && log_.global_batch && *samples > *begun_samples_) {
    const double steps = (*samples - *begun_samples_) / static_cast<double>(*log_.global_batch);
    if (steps >= 1 && time_ms > *begun_ms_)
      if (LoggedStep* step = step_of({{"step", std::floor(*samples / static_cast<double>(*log_.global_batch))}});
          step && step->unit == Pace::none) {
        step->pace = (time_ms - *begun_ms_) / steps;
        step->unit = Pace::ms;
      }
  }
  begun_ms_.reset();
}

void MlperfReader::read_event(const std::string& key, const json& event, int rank) {
  const json value = event.value("value", json()), metadata = event.value("metadata", json::object());
  const std::optional<double> time_ms = number_of(event, "time_ms");
  if (key == "global_batch_size" && value.is_number()) log_.global_batch = value.get<std::int64_t>();
  if (rank > 0) return;  // every rank may log its own
  if ((key == "block_start" || key == "epoch_start") && time_ms)
    begun_ms_ = time_ms, begun_samples_ = samples_of(metadata);
  if ((key == "block_stop" || key == "epoch_stop") && time_ms) end_block(*time_ms, samples_of(metadata));
  if (key == "train_loss" && value.is_number())
    if (LoggedStep* step = step_of(metadata)) step->loss = value.get<double>();
  if (key != "tracked_stats" || !value.is_object()) return;
  LoggedStep* step = step_of(metadata);
  if (!step) return;
  if (const auto seconds = number_of(value, "train_step_time"); seconds && *seconds > 0)
    step->pace = *seconds * 1e3, step->unit = Pace::ms;
  else if (const auto rate = number_of(value, "throughput"); rate && *rate > 0)
    step->pace = *rate, step->unit = Pace::samples_per_s;
  for (const char* name : {"train_loss", "reduced_train_loss", "loss"})
    if (const auto loss = number_of(value, name)) step->loss = loss;
}

void MlperfReader::read(const Line& line) {
  const std::size_t at = line.text.find(kMark);
  if (at == std::string_view::npos) return;
  const json event = json::parse(line.text.substr(at + kMark.size()), nullptr, false);
  if (!event.is_object() || !event.contains("key") || !event.at("key").is_string()) {
    ++broken_;
    return;
  }
  read_event(event.at("key").get<std::string>(), event, line.rank);
}

Log MlperfReader::take() {
  log_.program = "mlperf";
  if (broken_ > 0) log_.notes.push_back(fmt::format("{} lines of MLPerf are cut short and were left out", broken_));
  std::erase_if(log_.steps, [](const LoggedStep& step) { return step.unit == Pace::none && !step.loss; });
  return std::move(log_);
}

}  // namespace mbench::formats
