#include "engine/run/run_point.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/run/flops.h"
#include "engine/spec/metrics.h"
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

// A trace changes what it looks at: it gets a step of its own, which is in no record.
void trace_a_step(Device& device, Trainer& trainer, Timeline* timeline) {
  if (!timeline) return;
  trainer.all_ranks().barrier();
  device.synchronize();
  device.trace(timeline);
  trainer.step();
  device.synchronize();
  device.trace(nullptr);
}

// Runs warm-up and measured steps on this rank; fills losses and norms, stops at max_seconds after at least
// one measured step on all ranks alike.
Measured measure(const Point& p, Device& device, Trainer& trainer, bool chatty, const RunOptions& options,
                 PointResult& result) {
  // A simulated step is the same every time.
  const std::int64_t warmups = device.real() ? p.warmup : 0, iterations = device.real() ? p.iterations : 1;
  Measured m;
  std::int64_t skipped = 0;
  std::unique_ptr<Gauge> gauge;
  const double begin = device.synchronize();
  for (std::int64_t i = 0; i < warmups + iterations; ++i) {
    const bool warmup = i < warmups;
    trainer.all_ranks().barrier();
    const double start = device.synchronize();
    if (i == warmups) {
      device.meter().reset();
      if (!device.real()) device.trace(options.timeline);
      gauge = device.gauge();
    }
    const StepResult step = trainer.step();
    const double now = device.synchronize(), seconds = now - start;
    device.trace(nullptr);
    // The sample has ended; what follows is in none.
    const float loss = trainer.mean_loss();
    if (device.real()) {
      result.losses.push_back(loss);
      result.gradient_norms.push_back(step.gradient_norm);
    }
    skipped += step.skipped ? 1 : 0;
    if (!warmup) m.step_seconds.push_back(seconds);
    if (chatty && options.progress)
      options.progress(
          {warmup, warmup ? i + 1 : i + 1 - warmups, warmup ? warmups : iterations, seconds * 1e3, loss});
    if (device.real() && (!std::isfinite(loss) || (!std::isfinite(step.gradient_norm) && !step.skipped))) {
      result.outcome = Outcome::wrong;
      result.reason = fmt::format("loss {} and gradient norm {} at iteration {}, need finite numbers", loss,
                                  step.gradient_norm, i + 1);
      break;
    }
    if (p.max_seconds > 0 && !warmup && trainer.all_ranks().host_max(now - begin) > p.max_seconds) break;
  }
  for (const double s : m.step_seconds) m.seconds += s;
  m.meter = device.meter();
  if (gauge) m.readings = gauge->read();
  if (device.real()) {
    result.skipped_steps = skipped;
    trace_a_step(device, trainer, options.timeline);
  }
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

// One figure of every rank, of a table with a row of `width` for each.
std::vector<double> column(const std::vector<double>& table, std::size_t width, std::size_t figure) {
  std::vector<double> out;
  for (std::size_t i = figure; i < table.size(); i += width) out.push_back(table[i]);
  return out;
}

// What the sensors of all ranks' devices told, each figure null unless all told it.
void add_readings(const Readings& mine, Group& all, PointResult& r) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> figures = {mine.power_w.value_or(unknown), mine.utilization.value_or(unknown),
                                       mine.clock_mhz.value_or(unknown), mine.memory_mib.value_or(unknown),
                                       mine.throttle ? static_cast<double>(*mine.throttle) : unknown};
  const std::vector<double> table = all.host_gather(figures);
  const auto of_ranks = [&](std::size_t figure) { return column(table, figures.size(), figure); };
  r.power_w = merge_ranks("power_w", of_ranks(0));
  r.utilization = merge_ranks("utilization", of_ranks(1));
  r.clock_mhz = merge_ranks("clock_mhz", of_ranks(2));
  r.device_memory_mib = merge_ranks("device_memory_mib", of_ranks(3));
  std::uint32_t seen = 0;  // what any of them told, once all did
  for (const double bits : of_ranks(4)) {
    if (std::isnan(bits)) return;
    seen |= static_cast<std::uint32_t>(bits);
  }
  r.throttle_reasons = seen == 0 ? "none" : fmt::format("{}", fmt::join(throttle_names(seen), ", "));
  if (const auto faults = throttle_names(seen, true); !faults.empty() && r.reason.empty())
    r.reason = fmt::format("the clock was held down: {}", fmt::join(faults, ", "));
}

}  // namespace

PointResult run_point(const Point& p, const Plan& plan, Device& device, World& world,
                      const RunOptions& options) {
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
  const Measured mine = measure(p, device, trainer, world.rank() == 0, options, r);
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
  const auto of_ranks = [&](std::size_t figure) { return column(table, row, figure); };
  r.peak_memory_by_rank_mib = of_ranks(0);
  r.peak_memory_mib = merge_ranks("peak_memory_mib", r.peak_memory_by_rank_mib);
  r.reserved_memory_mib = merge_ranks("reserved_memory_mib", of_ranks(1));
  if (device.real()) r.library_memory_mib = merge_ranks("library_memory_mib", of_ranks(row - 1));
  r.communication_fraction = merge_ranks("communication_fraction", of_ranks(2));
  r.bubble_fraction = merge_ranks("bubble_fraction", of_ranks(3));
  const std::vector<double> flops = of_ranks(4);
  const double executed = std::accumulate(flops.begin(), flops.end(), 0.0);
  const double slowest_peak = merge_ranks("peak_tflops", of_ranks(5)).value_or(0);
  // The anatomy is that of the first of the fullest ranks.
  const auto fullest = std::max_element(r.peak_memory_by_rank_mib.begin(), r.peak_memory_by_rank_mib.end()) -
                       r.peak_memory_by_rank_mib.begin();
  MemoryAnatomy anatomy;
  std::copy_n(table.begin() + fullest * static_cast<std::ptrdiff_t>(row) + 6, anatomy.mib.size(),
              anatomy.mib.begin());
  r.memory_anatomy_mib = anatomy;
  r.parameters = parameter_count(p.model, p.tp);
  if (r.outcome != Outcome::ok || slowest.empty()) return r;
  add_time(p, slowest, r);
  add_utilisation(p, executed, slowest_peak, options.peak_source, r);
  return r;
}

}  // namespace mbench
