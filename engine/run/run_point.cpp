#include "engine/run/run_point.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/run/flops.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"

namespace mbench {
namespace {

constexpr double kMiB = 1048576;

struct Measured {
  std::vector<double> step_seconds;
  double seconds = 0;  // of all measured steps
  Meter meter;         // over them
  Readings readings;   // during them
};

// Runs warm-up and measured steps on this rank; fills losses and norms, stops at max_seconds after at least
// one measured step on all ranks alike.
Measured measure(const Plan& plan, Device& device, Trainer& trainer, bool chatty, const RunOptions& options,
                 PointResult& result) {
  const Point& p = plan.point;
  // A simulated step is the same every time.
  const std::int64_t warmups = device.real() ? p.warmup : 0, iterations = device.real() ? p.iterations : 1;
  Measured m;
  std::int64_t skipped = 0;
  std::unique_ptr<Gauge> gauge;
  const double begin = device.synchronize();
  double last = begin;
  for (std::int64_t i = 0; i < warmups + iterations; ++i) {
    const bool warmup = i < warmups;
    if (i == warmups) {
      trainer.all_ranks().barrier();
      last = device.synchronize();
      device.meter().reset();
      device.trace(options.timeline);
      gauge = device.gauge();
    }
    const StepResult step = trainer.step();
    const double now = device.synchronize(), seconds = now - last;
    device.trace(nullptr);
    last = now;
    if (device.real()) {
      result.losses.push_back(step.loss);
      result.gradient_norms.push_back(step.gradient_norm);
    }
    skipped += step.skipped ? 1 : 0;
    if (!warmup) m.step_seconds.push_back(seconds);
    if (chatty && options.progress)
      options.progress({warmup, warmup ? i + 1 : i + 1 - warmups, warmup ? warmups : iterations,
                        seconds * 1e3, step.loss});
    if (device.real() &&
        (!std::isfinite(step.loss) || (!std::isfinite(step.gradient_norm) && !step.skipped))) {
      result.outcome = Outcome::wrong;
      result.reason = fmt::format("loss {} and gradient norm {} at iteration {}, need finite numbers",
                                  step.loss, step.gradient_norm, i + 1);
      break;
    }
    if (p.max_seconds > 0 && !warmup && trainer.all_ranks().host_max(now - begin) > p.max_seconds) break;
  }
  for (const double s : m.step_seconds) m.seconds += s;
  m.meter = device.meter();
  if (gauge) m.readings = gauge->read();
  if (device.real()) result.skipped_steps = skipped;
  return m;
}

void add_time(const Point& p, const std::vector<double>& slowest, PointResult& r) {
  std::vector<double> ms, rates;
  for (const double s : slowest) {
    ms.push_back(s * 1e3);
    rates.push_back(static_cast<double>(p.global_batch) / s);
  }
  r.iteration_ms = statistics_of(ms);
  const Statistics rate = statistics_of(rates);
  // Samples over time, not the mean of rates: the two differ when iterations vary.
  r.samples_per_s = static_cast<double>(p.global_batch) / (r.iteration_ms->mean * 1e-3);
  r.samples_per_s_stddev = rate.stddev;
  r.tokens_per_s = *r.samples_per_s * static_cast<double>(p.seq);
}

void add_utilisation(const Point& p, double executed_flops, double peak, const std::string& source,
                     PointResult& r) {
  const double per_device = model_flops(p) / (r.iteration_ms->mean * 1e-3) / static_cast<double>(r.world);
  r.tflops_per_device = per_device * 1e-12;
  if (peak <= 0) return;
  r.peak_tflops = peak * 1e-12;
  r.peak_source = source;
  r.mfu = per_device / peak;
  r.mfu_causal = model_flops_causal(p) / (r.iteration_ms->mean * 1e-3) / static_cast<double>(r.world) / peak;
  r.hfu = executed_flops / (r.iteration_ms->mean * 1e-3) / static_cast<double>(r.world) / peak;
}

MemoryAnatomy anatomy_of(const double* mib) {
  return {mib[0], mib[1], mib[2], mib[3], mib[4], mib[5]};
}

// What the sensors of all ranks' devices told, each figure null unless all told it.
void add_readings(const Readings& mine, Group& all, PointResult& r) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> figures = {mine.power_w.value_or(unknown), mine.utilization.value_or(unknown),
                                       mine.clock_mhz.value_or(unknown), mine.memory_mib.value_or(unknown),
                                       mine.throttle ? static_cast<double>(*mine.throttle) : unknown};
  const std::vector<double> table = all.host_gather(figures);
  const auto fold = [&](std::size_t figure, auto&& merge) -> std::optional<double> {
    double sum = table[figure];
    for (std::size_t i = figure + figures.size(); i < table.size(); i += figures.size())
      sum = std::isnan(table[i]) || std::isnan(sum) ? unknown : merge(sum, table[i]);
    return std::isnan(sum) ? std::nullopt : std::optional(sum);
  };
  const auto mean = [&](std::size_t figure) {
    auto sum = fold(figure, std::plus<double>());
    if (sum) *sum /= static_cast<double>(all.size());
    return sum;
  };
  r.power_w = mean(0);
  r.utilization = mean(1);
  r.clock_mhz = mean(2);
  if (const auto most = fold(3, [](double a, double b) { return std::max(a, b); }))
    r.device_memory_mib = most;
  const auto bits = fold(4, [](double a, double b) {
    return static_cast<double>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
  });
  if (!bits) return;
  const auto seen = static_cast<std::uint32_t>(*bits);
  r.throttle_reasons = seen == 0 ? "none" : fmt::format("{}", fmt::join(throttle_names(seen), ", "));
  if (const auto faults = throttle_names(seen, true); !faults.empty() && r.reason.empty())
    r.reason = fmt::format("the clock was held down: {}", fmt::join(faults, ", "));
}

}  // namespace

PointResult run_point(const Plan& plan, Device& device, World& world, const RunOptions& options) {
  const Point& p = plan.point;
  check(world.size() == plan.mesh.world(), "run", "{} ranks, the plan needs {}", world.size(),
        plan.mesh.world());
  PointResult r;
  r.point = p;
  r.id = point_id(p);
  r.world = world.size();
  r.device = device.name();
  r.simulated = !device.real();

  std::unique_ptr<TokenSource> data;
  if (device.real()) data = open_data(p.data, p.model.vocab, p.seq, p.seed);
  Trainer trainer(plan, device, world, data.get());
  Group& all = trainer.all_ranks();
  const Measured mine = measure(plan, device, trainer, world.rank() == 0, options, r);
  add_readings(mine.readings, all, r);
  const double peak = options.measure_peak_flops ? options.measure_peak_flops(0.1) : 0;

  // One row of figures a rank, gathered on all.
  const double n = std::max<double>(1, static_cast<double>(mine.step_seconds.size()));
  std::vector<double> figures = {static_cast<double>(device.memory().peak().total) / kMiB,
                                 static_cast<double>(device.memory().reserved()) / kMiB,
                                 mine.seconds > 0 ? mine.meter.communication_seconds / mine.seconds : 0,
                                 mine.seconds > 0 ? mine.meter.bubble_seconds / mine.seconds : 0,
                                 mine.meter.matmul_flops / n,
                                 peak};
  for (const std::size_t bytes : device.memory().peak().by_category)
    figures.push_back(static_cast<double>(bytes) / kMiB);
  figures.push_back(static_cast<double>(device.library_bytes()) / kMiB);
  const std::size_t row = figures.size();
  const std::vector<double> table = all.host_gather(figures);
  const std::vector<double> times = all.host_gather(mine.step_seconds);

  std::vector<double> slowest(mine.step_seconds.size(), 0);
  for (std::size_t i = 0; i < times.size(); ++i) {
    double& s = slowest[i % slowest.size()];
    s = std::max(s, times[i]);
  }
  double executed = 0, slowest_peak = peak, communication = 0, bubble = 0;
  std::size_t fullest = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.size()); ++rank) {
    const double* f = &table[rank * row];
    r.peak_memory_by_rank_mib.push_back(f[0]);
    if (f[0] > r.peak_memory_by_rank_mib[fullest]) fullest = rank;
    r.reserved_memory_mib = std::max(r.reserved_memory_mib.value_or(0), f[1]);
    communication = std::max(communication, f[2]);
    bubble = std::max(bubble, f[3]);
    executed += f[4];
    slowest_peak = std::min(slowest_peak, f[5]);
    if (device.real()) r.library_memory_mib = std::max(r.library_memory_mib.value_or(0), f[row - 1]);
  }
  r.peak_memory_mib = r.peak_memory_by_rank_mib[fullest];
  r.memory_anatomy_mib = anatomy_of(&table[fullest * row + 6]);
  r.communication_fraction = communication;
  r.bubble_fraction = bubble;
  r.parameters = parameter_count(p.model, p.tp);
  if (r.outcome != Outcome::ok || slowest.empty()) return r;
  add_time(p, slowest, r);
  add_utilisation(p, executed, slowest_peak, options.peak_source, r);
  return r;
}

}  // namespace mbench
