// What is known of a point before it runs: whether it can be, whether it fits, about how long it takes.
// The engine itself runs the step on a simulated CPU, so what is refused here could not have run.
#include "cli/preflight.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/environment.h"
#include "engine/base/machine_memory.h"
#include "engine/base/text.h"
#include "engine/device/fp8_layouts.h"
#include "engine/platform/calibrate.h"
#include "engine/platform/registry.h"
#include "engine/run/gpu_peaks.h"
#include "engine/run/run_point.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "strategies/strategies.h"
#include "sweeps/launch/launcher.h"

namespace mbench::cli {
namespace {

constexpr double kSecondsToStart = 0.7;
// Of a step on a GPU: the share of the peak that its products reach, and what a launch takes the host. Rough:
// for the estimate that a person reads and the time-out that follows from it, not for any result.
constexpr double kShareOfPeak = 0.3, kSecondsPerLaunch = 1e-5;

// This machine, measured once and quickly: for an estimate that a person reads, not for any result.
const sim::Machine& this_machine() {
  static const sim::Machine machine = [] {
    platform::CalibrationOptions options;
    options.seconds = 0.1;
    options.measured_on = "this machine";
    options.cores = usable_cores();
    options.memory_bytes = std::max<std::uint64_t>(physical_memory(), std::uint64_t{1} << 30);
    // With no more threads than cores, whatever number the ranks are given: a number that cannot be is their answer.
    const int chosen = omp_get_max_threads();
    omp_set_num_threads(std::clamp(chosen, 1, options.cores));
    nlohmann::ordered_json measured = platform::calibrate_cpu(options);
    omp_set_num_threads(chosen);
    return sim::machine_from_json(measured, "calibration");
  }();
  return machine;
}

double seconds_of(const Point& p, double step) {
  double seconds = step * static_cast<double>(p.warmup + p.iterations);
  if (p.max_seconds > 0) seconds = std::min(seconds, std::max(p.max_seconds, step * static_cast<double>(p.warmup + 1)));
  return kSecondsToStart + seconds;
}

// Whether it fits the GPUs of this machine, where it has any, and about how long it takes on those whose peak
// is known.
sweeps::Forecast preflight_on_gpus(const Point& point, Plan plan, const sweeps::Launcher& launcher) {
  const std::vector<Gpu> all = platform::gpus();
  if (all.empty()) return {};
  plan.precision.turned_fp8 = multiplies_turned_fp8(10 * all.front().major + all.front().minor);
  const std::int64_t n = static_cast<std::int64_t>(all.size());
  const std::int64_t on_node = sweeps::spread_of(launcher, point).per_node;
  const auto sharing = static_cast<std::uint64_t>((on_node + n - 1) / n);
  const std::size_t share = all.front().memory_bytes / sharing;
  const std::size_t limit = point.memory_limit == 0 ? share : std::min<std::size_t>(point.memory_limit, share);
  const sim::MemoryForecast forecast = sim::forecast_memory(plan, limit);  // throws, naming what does not fit
  const auto peak = gpu_peak(all.front().name, point.precision);
  if (!peak) return {};
  const double flops = forecast.matmul_flops / static_cast<double>(point.world()) * static_cast<double>(sharing);
  const double step =
      std::max(flops / (kShareOfPeak * peak->flops), kSecondsPerLaunch * static_cast<double>(forecast.launches));
  return {{}, {}, seconds_of(point, step)};
}

std::string need_text(std::int64_t ranks, std::uint64_t bytes, const char* on, std::uint64_t got,
                      const std::string& of) {
  return fmt::format("[memory] {} of memory on {}, got {} {}",
                     ranks == 1 ? "one rank needs " + format_bytes(bytes)
                                : fmt::format("the {} ranks need {}", ranks, format_bytes(bytes)),
                     on, format_bytes(got), of);
}

}  // namespace

std::string does_not_fit(std::int64_t ranks, std::uint64_t bytes) {
  const std::uint64_t available = available_memory();
  if (bytes <= available) return "";
  const auto group = group_memory();
  return need_text(ranks, bytes, "this machine", available, group ? "left of " + text_of(*group) : "available");
}

sweeps::Forecast preflight(const Point& point, const sweeps::Launcher& launcher) {
  try {
    // As here: the engine's own host, whatever framework's step it runs.
    Point here = point;
    here.framework.host = "mbench";
    const Plan plan = strategies::make_plan(here);
    if (const auto why = platform::why_unsupported_on(point.device, point)) return {Outcome::unsupported, *why, {}};
    if (point.device == "cuda") return preflight_on_gpus(point, plan, launcher);
    sim::Machine machine = this_machine();
    machine.node.devices = static_cast<int>(sweeps::spread_of(launcher, point).per_node);
    // What fits is judged for all ranks together below, as they share the memory.
    machine.device.memory_bytes = std::numeric_limits<std::uint64_t>::max() / 2;
    const sim::Simulation simulation = sim::simulate_point(here, plan, machine, static_cast<int>(here.world()));
    const auto on_this_node =
        simulation.total_reserved / static_cast<std::uint64_t>(sweeps::spread_of(launcher, point).nodes);
    const std::string why = launcher.memory_bytes == 0 ? does_not_fit(point.world(), on_this_node)
                            : on_this_node > launcher.memory_bytes
                                ? need_text(point.world(), on_this_node, "each node", launcher.memory_bytes, "of it")
                                : "";
    if (!why.empty()) return {Outcome::oom, why, {}};
    return {{}, {}, seconds_of(point, simulation.result.iteration_ms->mean * 1e-3)};
  } catch (const Error& e) {
    const auto outcome = outcome_of(e.kind());
    if (!outcome) throw;
    return {*outcome, e.what(), {}};
  }
}

}  // namespace mbench::cli
