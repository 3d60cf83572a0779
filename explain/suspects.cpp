#include "explain/suspects.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/point_builder.h"
#include "engine/sim/machine/what_if.h"
#include "explain/changes.h"
#include "reports/records/slow_steps.h"

namespace mbench::explain {
namespace {

constexpr double kNothing = 0.001;                         // of the step: a change that moves it less is none
constexpr std::int64_t kNarrow = 1024, kFewTokens = 2048;  // of a GEMM on one rank
constexpr std::size_t kMostSimulated = 6;

std::string time_text(double ms) {
  return ms >= 10000 ? fmt::format("{:.2f} s", ms / 1000) : fmt::format("{:.4g} ms", ms);
}

// The point with the change made; nothing where it is as before.
std::optional<Point> changed(const Point& point, const Change& change) {
  Point other = point;
  for (const auto& [field, value] : change.set) set_point_field(other, field, value, "changes.json");
  if (!change.scale.empty() || !change.as.empty()) {
    const std::vector<sim::MachineFigure> figures =
        sim::figures_of(sim::parse_simulated(point.device, "device").machine, "device");
    const auto now = [&](const sim::MachineFigure& figure) {
      const auto given = point.machine.find(figure.path);
      return given == point.machine.end() ? figure.value : given->second;
    };
    for (const sim::MachineFigure& figure : figures) {
      const bool share =
          figure.path.find("sustained") != std::string::npos || figure.path == "device.memory_efficiency";
      const bool rate = share || figure.path.find("gbps") != std::string::npos || figure.path == "host.speed";
      for (const auto& [begin, factor] : change.scale)
        if (rate && figure.path.starts_with(begin))
          other.machine[figure.path] = share ? std::min(1.0, now(figure) * factor) : now(figure) * factor;
      for (const auto& [begin, name] : change.as)
        for (const sim::MachineFigure& from : figures)
          if (rate && figure.path.starts_with(begin) && from.path == name)
            other.machine[figure.path] = std::min(now(figure), now(from));
    }
  }
  return other == point ? std::nullopt : std::optional(other);
}

std::optional<double> memory_error(const PointResult& measured, const PointResult& simulated) {
  if (!measured.peak_memory_mib || !simulated.peak_memory_mib) return std::nullopt;
  return *simulated.peak_memory_mib / *measured.peak_memory_mib - 1;
}

// The measured step without the slow ones among many: what holds for every step explains these only.
double steady_ms(const Run& run) {
  const std::vector<double>& samples = run.measured.iteration_ms->samples;
  const reports::SlowSteps slow = samples.size() < kFewSamples ? reports::SlowSteps() : reports::slow_steps(samples);
  return slow.at.empty() || slow.is_level() ? run.measured.iteration_ms->mean : slow.body;
}

// How far the changed step is from the measured one, of how far the expected one is: 0 explains all, 1 nothing.
double left_of(const Run& run, const PointResult& changed) {
  if (run.parts && changed.time_anatomy_ms && run.expected.time_anatomy_ms) {
    const double before = distance(*run.parts, *run.expected.time_anatomy_ms);
    if (before > 0) return distance(*run.parts, *changed.time_anatomy_ms) / before;
  }
  const double steady = steady_ms(run), gap = std::abs(steady - run.expected.iteration_ms->mean);
  return gap > 0 ? std::abs(steady - changed.iteration_ms->mean) / gap
                 : std::abs(changed.iteration_ms->mean / steady - 1);
}

std::optional<Suspect> try_change(const Run& run, const Change& change, const Simulate& simulate) {
  const auto point = changed(run.expected.point, change);
  const auto result = point ? simulate(*point) : std::nullopt;
  if (!result || !result->iteration_ms) return std::nullopt;
  const double ms = result->iteration_ms->mean - run.expected.iteration_ms->mean;
  if (std::abs(ms) < kNothing * run.expected.iteration_ms->mean || (ms > 0) != (run.gap_ms() > 0)) return std::nullopt;
  Suspect suspect{Suspect::By::simulation,
                  change.what,
                  ms,
                  fmt::format("a step would take {}", time_text(result->iteration_ms->mean)),
                  change.confirm,
                  left_of(run, *result)};
  const auto before = memory_error(run.measured, run.expected), after = memory_error(run.measured, *result);
  if (before && after && std::abs(*result->peak_memory_mib - *run.expected.peak_memory_mib) > 1) {
    suspect.shown += fmt::format(", and its peak memory would be {:+.1f} % from the measured one (now {:+.1f} %)",
                                 *after * 100, *before * 100);
    if (std::abs(*after) > kOtherMemory && std::abs(*after) > std::abs(*before)) suspect.unlikely += 1;
    if (std::abs(*before) > kOtherMemory && std::abs(*after) < kOtherMemory) suspect.unlikely -= 1;
  }
  return suspect;
}

bool small_gemms(const Point& p) {
  return p.model.hidden / p.tp < kNarrow || p.seq * p.micro_batch / p.cp < kFewTokens ||
         (p.model.experts > 0 && p.model.expert_ffn / p.expert_tp() < kNarrow);
}

}  // namespace

bool holds(const std::string& condition, const Run& run) {
  const Point& p = run.expected.point;
  if (condition.empty()) return true;
  if (condition == "tp") return p.tp > 1;
  if (condition == "many_nodes") return p.world() > run.devices_of_node;
  if (condition == "experts") return p.model.experts > 0;
  if (condition == "fp8") return quantises(p.precision);
  if (condition == "bf16") return p.precision == Precision::bf16;
  if (condition == "small_gemms") return small_gemms(p);
  if (condition == "windows") return run.measured.log && run.measured.log->steps_per_sample > 1;
  fail(ErrorKind::internal, "changes.json", "no such condition, got \"{}\"", condition);
}

std::vector<Suspect> shown_by_simulation(const Run& run, const Simulate& simulate) {
  std::vector<Suspect> suspects;
  if (run.gap_ms() == 0) return suspects;
  for (const Change& change : changes().simulated)
    if (holds(change.condition, run))
      if (auto suspect = try_change(run, change, simulate)) suspects.push_back(std::move(*suspect));
  std::stable_sort(suspects.begin(), suspects.end(),
                   [](const Suspect& a, const Suspect& b) { return a.unlikely < b.unlikely; });
  if (suspects.size() > kMostSimulated) suspects.resize(kMostSimulated);
  return suspects;
}

std::vector<Suspect> not_shown(const Run& run) {
  std::vector<Suspect> suspects;
  if (run.gap_ms() <= 0) return suspects;
  for (const Change& change : changes().measured_only)
    if (holds(change.condition, run))
      suspects.push_back({Suspect::By::nothing, change.what, std::nullopt, "", change.confirm});
  return suspects;
}

std::vector<Suspect> suspects_of(const Run& run, const Simulate& simulate) {
  std::vector<Suspect> all = shown_by_figures(run);
  std::stable_sort(all.begin(), all.end(), [](const Suspect& a, const Suspect& b) {
    return std::abs(a.ms.value_or(0)) > std::abs(b.ms.value_or(0));
  });
  for (Suspect& each : shown_by_simulation(run, simulate)) all.push_back(std::move(each));
  for (Suspect& each : not_shown(run)) all.push_back(std::move(each));
  return all;
}

}  // namespace mbench::explain
