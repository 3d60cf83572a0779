// A log's steps as samples, and what is no sample beside them.
#include "engine/point/result.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/base/error.h"
#include "formats/logs/read_log.h"

namespace mbench::formats {
namespace {

// A record so much longer than the median is of a warm-up, if all before it are; and so many are at most.
constexpr double kLonger = 1.1;
constexpr std::size_t kMostWarmups = 10;

struct Timed {
  double ms;
  const LoggedStep* step;
};

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double ms_of(const LoggedStep& step, const Point& point) {
  const double samples = static_cast<double>(point.global_batch), tokens = samples * static_cast<double>(point.seq);
  switch (step.unit) {
    case Pace::ms:
      return step.pace;
    case Pace::samples_per_s:
      return 1e3 * samples / step.pace;
    case Pace::tokens_per_s_per_device:
      return 1e3 * tokens / (step.pace * static_cast<double>(point.world()));
    case Pace::none:
      break;
  }
  return 0;
}

// Behind each start, and by how much longer they are: compilation, autotuning, an allocator that still grows.
std::vector<bool> warmups_of(const std::vector<Timed>& timed, int wanted) {
  std::vector<bool> warmup(timed.size(), false);
  std::vector<double> usual;
  for (const Timed& each : timed)
    if (each.step->aside == Aside::none) usual.push_back(each.ms);
  const double limit = usual.empty() ? 0 : kLonger * median_of(usual);
  for (std::size_t start = 0; start < timed.size(); ++start) {
    if (!timed[start].step->first) continue;
    std::size_t count = 0;
    if (wanted >= 0)
      count = static_cast<std::size_t>(wanted);
    else if (timed.size() > 1)
      for (count = 1; count < kMostWarmups && start + count < timed.size() && timed[start + count].ms > limit;) ++count;
    for (std::size_t i = start; i < std::min(timed.size(), start + count); ++i) warmup[i] = true;
  }
  return warmup;
}

void check_agreement(const Log& log, const Point& point, const std::string& file) {
  if (log.global_batch && *log.global_batch != point.global_batch)
    fail(ErrorKind::bad_input, file,
         "a step of the log has {} samples, got global_batch {} of the spec: --set global_batch={}", *log.global_batch,
         point.global_batch, *log.global_batch);
  if (log.world && *log.world != point.world())
    fail(ErrorKind::bad_input, file, "the log is of {} ranks, got {} of the spec: --set dp=N, tp or pp", *log.world,
         point.world());
}

// How many steps a record is the mean of: the distance that most have.
std::int64_t window_of(const Log& log) {
  if (!log.of_windows) return 1;
  std::map<std::int64_t, int> distances;
  for (std::size_t i = 1; i < log.steps.size(); ++i) ++distances[log.steps[i].step - log.steps[i - 1].step];
  const auto most = std::max_element(distances.begin(), distances.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == distances.end() ? 1 : std::max<std::int64_t>(1, most->first);
}

void add_samples(const Log& log, const Point& point, const LogOptions& options, PointResult& r) {
  TrainerLog& said = *r.log;
  std::vector<Timed> timed;
  for (const LoggedStep& step : log.steps)
    if (const double ms = ms_of(step, point); ms > 0) timed.push_back({ms, &step});
  const std::vector<bool> warmup = warmups_of(timed, options.warmup);
  std::vector<double> samples;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const Aside aside = timed[i].step->aside;
    std::vector<double>& place = warmup[i]                    ? said.warmup_ms
                                 : aside == Aside::evaluation ? said.evaluation_ms
                                 : aside == Aside::checkpoint ? said.checkpoint_ms
                                                              : samples;
    if (&place == &samples && samples.empty()) said.first_step = timed[i].step->step;
    place.push_back(timed[i].ms);
  }
  if (samples.empty()) return;
  r.iteration_ms = statistics_of(samples);
  r.samples_per_s = static_cast<double>(point.global_batch) / (r.iteration_ms->mean * 1e-3);
  std::vector<double> rates;
  for (const double ms : samples) rates.push_back(static_cast<double>(point.global_batch) / (ms * 1e-3));
  r.samples_per_s_stddev = statistics_of(rates).stddev;
  r.tokens_per_s = *r.samples_per_s * static_cast<double>(point.seq);
}

// The fullest rank's, by the trainer's own allocator.
std::optional<double> most_of(const Log& log, std::string_view kind) {
  std::optional<double> most;
  for (const LoggedMemory& each : log.memory)
    if (each.kind == kind) most = std::max(most.value_or(0), each.mib);
  return most;
}

std::string reason_of(const Log& log, const TrainerLog& said, const std::string& file) {
  std::string text = fmt::format("measured by {}, by its log {}", log.program, file);
  if (said.steps_per_sample > 1) text += fmt::format("; a sample is the mean of {} steps", said.steps_per_sample);
  for (const auto& [name, left] :
       {std::pair("a warm-up", &said.warmup_ms), std::pair("an evaluation", &said.evaluation_ms),
        std::pair("a checkpoint", &said.checkpoint_ms)})
    if (!left->empty()) text += fmt::format("; {} of {} left out", left->size(), name);
  return text;
}

}  // namespace

PointResult result_of(const Log& log, const Point& point, const std::string& file, const LogOptions& options) {
  check_agreement(log, point, file);
  PointResult r;
  r.point = point;
  r.point.device = "cuda";
  r.id = point_id(r.point);
  r.world = point.world();
  r.device = !log.device.empty() ? log.device : options.device.empty() ? r.point.device : options.device;
  r.measured_by = log.program;
  r.log.emplace();
  r.log->steps_per_sample = window_of(log);
  r.log->memory = log.memory;
  add_samples(log, point, options, r);
  for (const LoggedStep& step : log.steps) {
    if (step.loss) r.losses.push_back(*step.loss);
    if (step.gradient_norm) r.gradient_norms.push_back(*step.gradient_norm);
  }
  if (!r.iteration_ms && r.losses.empty())
    fail(ErrorKind::bad_input, file,
         "every step of the log is of a warm-up, an evaluation or a checkpoint, got {} of them: --warmup 0 takes them "
         "as samples",
         log.steps.size());
  r.peak_memory_mib = most_of(log, "max_allocated");
  r.reserved_memory_mib = most_of(log, "max_reserved");
  r.reason = reason_of(log, *r.log, file);
  return r;
}

}  // namespace mbench::formats
