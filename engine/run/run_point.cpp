#include "engine/run/run_point.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/comm/gather.h"
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

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / kMiB;
}

MemoryAnatomy anatomy_of(const MemoryUse& use) {
  const auto of = [&](Category c) { return mib(use.by_category[static_cast<std::size_t>(c)]); };
  return {of(Category::weights),     of(Category::gradients), of(Category::optimizer),
          of(Category::activations), of(Category::workspace), of(Category::other)};
}

// The merged figure of all ranks' devices; null unless all told it.
template <class T, class Merge>
std::optional<T> fold(const std::vector<Readings>& ranks, std::optional<T> Readings::*figure,
                      const Merge& merge) {
  std::optional<T> result = ranks.front().*figure;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const std::optional<T>& theirs = ranks[r].*figure;
    result = result && theirs ? std::optional<T>(merge(*result, *theirs)) : std::nullopt;
  }
  return result;
}

// What the sensors of all ranks' devices told.
void add_readings(const Readings& mine, Group& all, PointResult& r) {
  const std::vector<Readings> ranks = gather_all(all, mine);
  const auto mean = [&](std::optional<double> Readings::*figure) {
    auto sum = fold(ranks, figure, std::plus<double>());
    if (sum) *sum /= static_cast<double>(ranks.size());
    return sum;
  };
  r.power_w = mean(&Readings::power_w);
  r.utilization = mean(&Readings::utilization);
  r.clock_mhz = mean(&Readings::clock_mhz);
  if (const auto most = fold(ranks, &Readings::memory_mib, [](double a, double b) { return std::max(a, b); }))
    r.device_memory_mib = most;
  const auto seen = fold(ranks, &Readings::throttle, std::bit_or<std::uint32_t>());
  if (!seen) return;
  r.throttle_reasons = *seen == 0 ? "none" : fmt::format("{}", fmt::join(throttle_names(*seen), ", "));
  if (const auto faults = throttle_names(*seen, true); !faults.empty() && r.reason.empty())
    r.reason = fmt::format("the clock was held down: {}", fmt::join(faults, ", "));
}

// What a rank tells the others of its run.
struct Figures {
  MemoryUse peak;
  std::size_t reserved = 0;
  double communication_fraction = 0, bubble_fraction = 0;  // of the measured time
  double matmul_flops = 0;                                 // of a step, executed
  double peak_flops = 0;                                   // of the device, per second
};

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

  Figures figures;
  figures.peak = device.memory().peak();
  figures.reserved = device.memory().reserved();
  if (mine.seconds > 0) {
    figures.communication_fraction = mine.meter.communication_seconds / mine.seconds;
    figures.bubble_fraction = mine.meter.bubble_seconds / mine.seconds;
  }
  figures.matmul_flops =
      mine.meter.matmul_flops / std::max<double>(1, static_cast<double>(mine.step_seconds.size()));
  figures.peak_flops = peak;
  const std::vector<Figures> ranks = gather_all(all, figures);

  std::vector<double> slowest(mine.step_seconds.size(), 0);
  for (const std::vector<double>& times : gather_all(all, mine.step_seconds)) {
    check(times.size() == slowest.size(), "run", "{} steps on a rank, need {} as on this one", times.size(),
          slowest.size());
    for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
  }
  double executed = 0, slowest_peak = peak, communication = 0, bubble = 0;
  std::size_t fullest = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Figures& f = ranks[rank];
    r.peak_memory_by_rank_mib.push_back(mib(f.peak.total));
    if (f.peak.total > ranks[fullest].peak.total) fullest = rank;
    r.reserved_memory_mib = std::max(r.reserved_memory_mib.value_or(0), mib(f.reserved));
    communication = std::max(communication, f.communication_fraction);
    bubble = std::max(bubble, f.bubble_fraction);
    executed += f.matmul_flops;
    slowest_peak = std::min(slowest_peak, f.peak_flops);
  }
  r.peak_memory_mib = r.peak_memory_by_rank_mib[fullest];
  r.memory_anatomy_mib = anatomy_of(ranks[fullest].peak);
  r.communication_fraction = communication;
  r.bubble_fraction = bubble;
  r.parameters = parameter_count(p.model, p.tp);
  if (r.outcome != Outcome::ok || slowest.empty()) return r;
  add_time(p, slowest, r);
  add_utilisation(p, executed, slowest_peak, options.peak_source, r);
  return r;
}

}  // namespace mbench
