// What is known of a point before it runs: whether it can be, whether it fits, about how long it takes.
// Memory is counted by the engine itself, so what is refused here could not have run.
#include "cli/cli.h"
#include "cli/environment.h"
#include "engine/base/text.h"
#include "engine/train/registry.h"
#include "engine/train/run_point.h"
#include "strategies/strategies.h"

namespace mbench::cli {
namespace {

// What a whole step reaches of the machine's measured product rate, and what an op and a start cost besides.
// Rough: for an estimate that a person reads, not for any result.
constexpr double kStepEfficiency = 0.6;
constexpr double kHalfEfficiency = 0.4;  // 16-bit operands are converted on a CPU
constexpr double kSecondsPerLaunch = 20e-6;
constexpr double kSecondsToStart = 0.7;

double machine_flops() {
  static const double rate = measured_peak_flops("cpu", 0.2);
  return rate;
}

double seconds_of(const Point& p, const MemoryForecast& f, const sweeps::Launcher& launcher) {
  const double efficiency = p.precision == Precision::f32 ? kStepEfficiency : kHalfEfficiency;
  const double crowding = std::max(1.0, static_cast<double>(p.world()) / (launcher.cores * launcher.nodes));
  const double step = f.matmul_flops / (machine_flops() * launcher.nodes * efficiency) +
                      static_cast<double>(f.launches) * kSecondsPerLaunch * crowding;
  double seconds = step * static_cast<double>(p.warmup + p.iterations);
  if (p.max_seconds > 0)
    seconds = std::min(seconds, std::max(p.max_seconds, step * static_cast<double>(p.warmup + 1)));
  return kSecondsToStart + seconds;
}

}  // namespace

sweeps::Forecast preflight(const Point& point, const sweeps::Launcher& launcher) {
  try {
    const Plan plan = strategies::make_plan(point);
    const MemoryForecast forecast = forecast_memory(plan);
    const std::uint64_t on_this_node = forecast.total_reserved / static_cast<std::uint64_t>(launcher.nodes);
    const std::uint64_t available = available_memory();
    if (on_this_node > available)
      return {Outcome::oom,
              fmt::format("[memory] the {} ranks need {} of memory on this machine, got {} available",
                          point.world(), format_bytes(on_this_node), format_bytes(available)),
              {}};
    return {{}, {}, seconds_of(point, forecast, launcher)};
  } catch (const Error& e) {
    switch (e.kind()) {
      case ErrorKind::out_of_memory:
        return {Outcome::oom, e.what(), {}};
      case ErrorKind::infeasible:
        return {Outcome::infeasible, e.what(), {}};
      case ErrorKind::unsupported:
        return {Outcome::unsupported, e.what(), {}};
      default:
        throw;
    }
  }
}

}  // namespace mbench::cli
