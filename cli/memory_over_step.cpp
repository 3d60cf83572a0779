#include "cli/memory_over_step.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/mebibyte.h"
#include "cli/plan_memory.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "engine/sim/play/memory_over_time.h"
#include "engine/sim/run/step_costs.h"
#include "reports/page/point_label.h"
#include "reports/plots/memory_timeline.h"
#include "reports/tables/report_parts.h"
#include "strategies/strategies.h"

namespace mbench::cli {
namespace {

constexpr std::size_t kMost = 4;  // of a file: each is a broad plot

// Against the time of the simulated step. Nothing where that does not end.
std::optional<sim::MemoryOverTime> in_time(const Point& point, const sim::MemoryOverStep& step, int rank,
                                           api::PointSimulator& simulator) {
  if (!point.simulated()) return std::nullopt;
  const sim::Simulation simulation = simulator.attempt(point, {.trace = true});
  if (simulation.result.outcome != Outcome::ok) return std::nullopt;
  const auto stages = static_cast<std::int64_t>(simulation.timeline_by_stage.size());
  const auto stage = static_cast<std::size_t>(rank / (point.world() / stages));
  return sim::over_time(step, simulation.timeline_by_stage.at(stage));
}

reports::Plot plot_of(const Point& point, const std::string& label) {
  api::PointSimulator simulator;
  const Plan plan = strategies::make_plan(point);
  const Fullest fullest = fullest_of(point, plan, simulator);
  sim::MemoryOverStep step =
      sim::memory_over_step(plan, fullest.recording, *fullest.ranks, sim::caching_of(plan, point.env));
  reports::MemoryOverStep over{
      fmt::format("{}, rank {}", label, fullest.ranks->rank), step.parts, {}, {}, point.simulated()};
  if (std::optional<sim::MemoryOverTime> timed = in_time(point, step, fullest.ranks->rank, simulator)) {
    over.parts.clear();
    for (sim::MemoryOverTime::Part& part : timed->parts)
      over.parts.push_back(std::move(part.name)), over.begins_ms.push_back(part.begin_ms);
    step.moments = std::move(timed->moments);
  }
  const double libraries = static_cast<double>(sim::library_memory(plan));
  for (const sim::MemoryOverStep::Moment& m : step.moments) {
    reports::MemoryOverStep::Moment& moment = over.moments.emplace_back();
    moment.at = m.at;
    for (std::size_t c = 0; c < moment.mib.size(); ++c) moment.mib[c] = static_cast<double>(m.bytes[c]) / kMib;
    moment.mib[static_cast<std::size_t>(Category::workspace)] += libraries / kMib;
  }
  return reports::memory_timeline_plot(over);
}

}  // namespace

std::vector<reports::Plot> memory_timelines(const ResultFile& file, const reports::ReportOptions& options,
                                            std::vector<std::string>& notes) {
  const reports::ReportParts parts = reports::report_parts(file, options);
  std::vector<reports::Plot> plots;
  for (std::size_t i = 0; i < std::min(parts.chosen.size(), kMost); ++i) {
    const reports::Record& record = *parts.chosen[i];
    const auto row =
        std::find_if(file.points.begin(), file.points.end(), [&](const PointResult& r) { return r.id == record.id(); });
    std::string label = reports::point_label(record, parts.swept);
    if (label.empty()) label = record.model_name();
    try {
      plots.push_back(plot_of(row->point, label));
    } catch (const Error& e) {
      notes.push_back(fmt::format("no memory over a step of {}: {}", printable(label), printable(e.what())));
    }
  }
  if (parts.chosen.size() > kMost)
    notes.push_back(fmt::format("memory over a step is drawn of the first {} of {} points; --filter chooses", kMost,
                                parts.chosen.size()));
  return plots;
}

}  // namespace mbench::cli
