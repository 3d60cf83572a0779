#include "engine/run/run_point.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/comm/gather.h"
#include "engine/device/stream_device.h"
#include "engine/point/adapter_weights.h"
#include "engine/point/metrics.h"
#include "engine/run/energy.h"
#include "engine/run/fault_log.h"
#include "engine/run/flops.h"
#include "engine/run/soak.h"
#include "engine/train/data.h"
#include "engine/train/steady_state.h"
#include "engine/train/trainer.h"

namespace mbench {
namespace {

constexpr double kMiB = 1048576;

struct MeasuredSteps {
  std::vector<double> step_seconds;     // of a soak the median of each window
  std::vector<double> compute_seconds;  // of these, outside collectives and messages
  std::int64_t steps = 0;
  std::optional<SoakLog> soak;
  std::optional<FaultLog> faults;
  double seconds = 0;                // of all measured steps
  double cpu_seconds = 0;            // of the main thread in them
  std::vector<double> cpu_of_steps;  // each of them, where runs take turns
  Meter meter;                       // over them
  TimeByPart parts{};                // of the step that was looked into, by what it was spent on
  double looked_into = 0;            // its seconds; 0: none was
  nn::RouterLoad router_load;        // of all steps before it
  Readings readings;                 // during them
  EnergyReading energy;              // of them and what lies between them
};

// Time that this thread was given a core. It computes, or polls for messages: it sleeps only where its own threads end
// a loop at different times.
double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Of collectives and messages, and of waiting for them, since the meters were reset; the device is synchronized.
double waited_seconds(Device& device) {
  return device.meter().communication_seconds + device.meter().bubble_seconds;
}

// How often a soak tells where it is: twice a second.
class Pace {
 public:
  bool is_due(double now) {
    if (now < next_) return false;
    next_ = now + 0.5;
    return true;
  }

 private:
  double next_ = std::numeric_limits<double>::lowest();
};

// A trace changes what it looks at: it gets a step of its own, which is in no record. So does what a step of a stream is spent on, which
// events around every op tell.
void look_into_a_step(Device& device, train::Trainer& trainer, bool by_part, Timeline* timeline, MeasuredSteps& m) {
  if (!timeline && !by_part) return;
  Timeline own;
  trainer.all_ranks().barrier();
  const double start = device.synchronize();
  device.reset_meters();
  device.trace(timeline ? timeline : &own);
  trainer.step();
  const double seconds = device.synchronize() - start;
  device.trace(nullptr);
  if (!by_part) return;
  m.looked_into = seconds;
  m.parts = device.total_meter().seconds;
}

// Steps of a simulated device, in no sample, until its memory repeats on every rank. `steady` knows of the one that was measured.
void go_on_to_steady_state(train::Trainer& trainer, train::SteadyState& steady) {
  while (trainer.all_ranks().host_max(steady.reached() ? 0 : 1) > 0) trainer.step();
}

// Lets the other run train for a while. Every rank is between two steps before rank 0 passes, and looks only when it has. The seconds
// that it took.
double take_turns(const RunOptions::Turns& turns, Device& device, train::Trainer& trainer, bool leads) {
  trainer.all_ranks().barrier();
  const double start = device.synchronize();
  if (leads) turns.pass();
  trainer.all_ranks().barrier();
  turns.wait();
  return device.synchronize() - start;
}

// Runs warm-up and measured steps on this rank; fills losses and norms, stops at max_seconds after at least
// one measured step on all ranks alike, or as a soak when its time is over.
MeasuredSteps measure(const Point& p, Device& device, train::Trainer& trainer, bool chatty, const RunOptions& options,
                      PointResult& result) {
  // A simulated step is the same every time.
  const std::int64_t warmups = device.real() ? p.warmup : 0, iterations = device.real() ? p.iterations : 1;
  MeasuredSteps m;
  std::int64_t skipped = 0;
  std::unique_ptr<Gauge> gauge;
  std::unique_ptr<EnergyMeter> energy;
  train::SteadyState steady(device);
  double begin = device.synchronize();
  const bool soaks = options.soak_s > 0 && device.real();
  double soaking = 0;  // when the first measured step began
  Pace pace;
  for (std::int64_t i = 0; soaks || i < warmups + iterations; ++i) {
    const bool warmup = i < warmups;
    if (options.turns && i > warmups && (i - warmups) % options.turns->steps == 0)
      begin += take_turns(*options.turns, device, trainer, chatty);  // no time of this point
    trainer.all_ranks().barrier();
    if (i == warmups) {  // before the first sample begins: sensors may take tens of milliseconds to open
      device.synchronize();
      device.reset_meters();
      device.memory().reset_library_peak();  // what algorithms were chosen with is no part of a step
      if (!device.real()) device.trace(options.timeline);
      gauge = device.gauge();
      if (options.open_energy) energy = options.open_energy();
      if (options.watch_faults) m.faults.emplace(options.watch_faults());
      if (soaks)
        m.soak.emplace(
            trainer.all_ranks(), options.soak_s, p.global_batch,
            options.open_gauge ? options.open_gauge : [&] { return device.gauge(); });
      if (device.real()) trainer.all_ranks().barrier();
    }
    const double start = device.synchronize();
    if (i == warmups) soaking = start;
    const double cpu_start = cpu_seconds(), waited = waited_seconds(device);
    const train::StepResult step = trainer.step();
    const double now = device.synchronize(), seconds = now - start;
    const double computed = std::max(0.0, seconds - (waited_seconds(device) - waited));
    if (!warmup) {
      const double cpu = cpu_seconds() - cpu_start;
      m.cpu_seconds += cpu;
      if (options.turns) m.cpu_of_steps.push_back(cpu);
      m.seconds += seconds;
      ++m.steps;
    }
    device.trace(nullptr);
    // The sample has ended; what follows is in none.
    const float loss = trainer.mean_loss();
    if (device.real() && i < warmups + iterations) {
      result.losses.push_back(loss);
      result.gradient_norms.push_back(step.gradient_norm);
      if (const auto added = trainer.auxiliary_loss()) result.auxiliary_losses.push_back(*added);
    }
    skipped += step.skipped ? 1 : 0;
    if (!warmup && !soaks) {
      m.step_seconds.push_back(seconds);
      m.compute_seconds.push_back(computed);
    }
    if (chatty && options.progress && (warmup || !soaks || pace.is_due(now)))
      options.progress({warmup, warmup ? i + 1 : i + 1 - warmups,
                        warmup  ? warmups
                        : soaks ? 0
                                : iterations,
                        seconds * 1e3, loss});
    if (device.real() && (!std::isfinite(loss) || (!std::isfinite(step.gradient_norm) && !step.skipped))) {
      result.outcome = Outcome::wrong;
      result.reason = fmt::format("loss {} and gradient norm {} at iteration {}, need finite numbers", loss,
                                  step.gradient_norm, i + 1);
      break;
    }
    if (m.soak) {
      const double elapsed = trainer.all_ranks().host_max(now - soaking);
      const SoakWindow* window = m.soak->add(seconds, computed, elapsed);
      const bool over = m.soak->is_over(elapsed);
      if (over && !window) window = m.soak->finish(elapsed);
      if (window && m.faults) m.faults->look(elapsed);
      if (window && chatty && options.window) options.window(*window);
      if (over) break;
      continue;
    }
    if (p.max_seconds > 0 && !warmup && trainer.all_ranks().host_max(now - begin) > p.max_seconds) break;
  }
  if (m.soak) {  // one that ended by a loss that is not finite has a window that is not full
    if (result.outcome != Outcome::ok) m.soak->finish(trainer.all_ranks().host_max(device.synchronize() - soaking));
    m.step_seconds = m.soak->own_steps();
    m.compute_seconds = m.soak->own_compute();
    result.soak = m.soak->soak();
    if (!options.why_no_sensors.empty() && result.reason.empty())
      result.reason = "the device's clock, power and temperature are unknown: " + options.why_no_sensors;
  }
  if (m.faults) m.faults->look(device.synchronize() - soaking);
  m.meter = device.total_meter();
  m.router_load = trainer.router_load();
  if (gauge) m.readings = gauge->read();
  if (energy) m.energy = energy->read();
  if (!device.real()) go_on_to_steady_state(trainer, steady);
  if (device.real()) {
    result.skipped_steps = skipped;
    // What a GPU does in a replayed step is not told apart.
    look_into_a_step(device, trainer, !device.immediate() && !p.capture.any() && result.outcome == Outcome::ok,
                     options.timeline, m);
  }
  return m;
}

void add_time(const Point& p, const std::vector<double>& slowest, const std::optional<Statistics>& all,
              PointResult& r) {
  std::vector<double> ms, rates;
  for (const double s : slowest) {
    ms.push_back(s * 1e3);
    rates.push_back(static_cast<double>(p.global_batch) / s);
  }
  r.iteration_ms = all ? *all : statistics_of(ms);
  const Statistics rate = statistics_of(rates);
  // Samples over time, not the mean of rates: the two differ when iterations vary.
  r.samples_per_s = static_cast<double>(p.global_batch) / (r.iteration_ms->mean * 1e-3);
  r.samples_per_s_stddev = rate.stddev;
  r.tokens_per_s = *r.samples_per_s * static_cast<double>(p.seq);
}

void add_utilisation(const Point& p, double executed_flops, double peak, const std::string& source, PointResult& r) {
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
  MemoryAnatomy anatomy;
  for (std::size_t i = 0; i < use.by_category.size(); ++i) anatomy.mib[i] = mib(use.by_category[i]);
  return anatomy;
}

// A figure of every rank.
template <class T, class Figure>
std::vector<double> of_ranks(const std::vector<T>& ranks, const Figure& figure) {
  std::vector<double> out;
  for (const T& rank : ranks) out.push_back(figure(rank));
  return out;
}

// What the sensors of all ranks' devices told.
void add_readings(const Readings& mine, comm::Group& all, PointResult& r) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Readings> ranks = comm::gather_all(all, mine);
  const auto merged = [&](const char* metric, std::optional<double> Readings::*figure) {
    return merge_ranks(metric, of_ranks(ranks, [&](const Readings& r) { return (r.*figure).value_or(unknown); }));
  };
  r.power_w = merged("power_w", &Readings::power_w);
  r.utilization = merged("utilization", &Readings::utilization);
  r.clock_mhz = merged("clock_mhz", &Readings::clock_mhz);
  r.device_memory_mib = merged("device_memory_mib", &Readings::memory_mib);
  std::uint32_t seen = 0;  // what any of them told, once all did
  for (const Readings& rank : ranks) {
    if (!rank.throttle) return;
    seen |= *rank.throttle;
  }
  r.throttle_reasons = seen == 0 ? "none" : fmt::format("{}", fmt::join(throttle_names(seen), ", "));
  if (const auto faults = throttle_names(seen, true); !faults.empty() && r.reason.empty())
    r.reason = fmt::format("the clock was held down: {}", fmt::join(faults, ", "));
}

void add_router_load(const std::vector<RankFigures>& ranks, PointResult& r) {
  double sum = 0, count = 0, largest = 0;
  for (const RankFigures& f : ranks) {
    sum += f.imbalance_sum;
    count += f.dispatches;
    largest = std::max(largest, f.largest_imbalance);
  }
  if (count == 0) return;
  r.expert_imbalance = sum / count;
  if (r.reason.empty())
    r.reason = fmt::format(
        "the data decide how many tokens experts get: the fullest one {:.2f} times the mean, {:.2f} at most",
        *r.expert_imbalance, largest);
  if (const double reruns = ranks.front().reruns; reruns > 0)
    r.reason += fmt::format("; {} steps were run again without expert_rank_capacity, which was too small", reruns);
}

// As of the device's memory: the fullest rank's, which need not be the same rank.
void add_host_memory(const std::vector<RankFigures>& ranks, PointResult& r) {
  const auto fullest = std::max_element(ranks.begin(), ranks.end(), [](const RankFigures& a, const RankFigures& b) {
    return a.host_peak.total < b.host_peak.total;
  });
  if (!fullest->has_host) return;
  r.host_memory_mib =
      merge_ranks("host_memory_mib", of_ranks(ranks, [](const RankFigures& f) { return mib(f.host_peak.total); }));
  r.host_memory_anatomy_mib = anatomy_of(fullest->host_peak);
}

// Of the slowest rank; the host's part is what no other explains.
void add_time_anatomy(const std::vector<RankFigures>& ranks, PointResult& r) {
  const auto slowest = std::max_element(ranks.begin(), ranks.end(),
                                        [](const RankFigures& a, const RankFigures& b) { return a.step < b.step; });
  if (slowest->step == 0) return;
  TimeAnatomy anatomy;
  double rest = r.iteration_ms->mean;
  for (int p = 0; p < kTimeParts; ++p)
    if (static_cast<TimePart>(p) != TimePart::host)
      rest -= anatomy.ms[static_cast<std::size_t>(p)] = slowest->parts[static_cast<std::size_t>(p)] * 1e3;
  at(anatomy.ms, TimePart::host) = std::max(0.0, rest);
  r.time_anatomy_ms = anatomy;
}

// Of the rank that hands over most.
void add_communication(const std::vector<RankFigures>& ranks, PointResult& r) {
  const auto busiest = std::max_element(ranks.begin(), ranks.end(), [](const RankFigures& a, const RankFigures& b) {
    return sum_of(a.sent) < sum_of(b.sent);
  });
  CommunicationByAxis sent;
  for (std::size_t i = 0; i < sent.mib.size(); ++i) sent.mib[i] = busiest->sent[i] / kMiB;
  r.communication_mib = sent;
}

// Of each measured step the mean of the ranks' main threads.
void add_turns(const MeasuredSteps& mine, std::int64_t steps, comm::Group& all, PointResult& r) {
  const std::vector<std::vector<double>> ranks = comm::gather_all(all, mine.cpu_of_steps);
  r.turn_steps = steps;
  r.turn_cpu_ms.assign(mine.cpu_of_steps.size(), 0);
  for (const std::vector<double>& rank : ranks)
    for (std::size_t i = 0; i < rank.size(); ++i) r.turn_cpu_ms[i] += rank[i] * 1e3 / static_cast<double>(ranks.size());
}

// What each rank's steps took, all of them and outside collectives; `told`: its meters tell these apart.
void add_ranks(const MeasuredSteps& mine, bool reported, comm::Group& all, PointResult& r) {
  const auto to_ms = [](std::vector<double> seconds) {
    for (double& s : seconds) s *= 1e3;
    return seconds;
  };
  for (const std::vector<double>& steps : comm::gather_all(all, mine.step_seconds))
    if (!steps.empty()) r.step_ms_by_rank.push_back(statistics_of(to_ms(steps)).median);
  if (!reported) return;
  // Each rank tells the parts of its steps and not every step: median, spread, parts.
  const StepParts parts = parts_of(to_ms(mine.compute_seconds));
  std::vector<double> figures = {parts.median, parts.spread};
  figures.insert(figures.end(), parts.parts.begin(), parts.parts.end());
  for (const std::vector<double>& rank : comm::gather_all(all, figures))
    r.compute_ms_by_rank.push_back({rank.at(0), rank.at(1), {rank.begin() + 2, rank.end()}});
}

// What the counters of all ranks say of the mean step.
void add_counted(const RunOptions& options, const EnergyReading& mine, comm::Group& all, PointResult& r) {
  if (!options.open_energy) return;
  if (options.turns)
    r.energy_source = "unknown: two runs took turns, and the counters hold both";
  else
    add_counted_energy(gather_energy(all, mine), r);
}

}  // namespace

void add_energy(const std::vector<RankFigures>& ranks, const std::optional<PowerCurve>& watts, PointResult& r) {
  if (!r.iteration_ms) return;
  if (!watts) {
    r.energy_source = "unknown: the machine's file has no device.watts";
    return;
  }
  double joules = 0;
  for (const RankFigures& f : ranks) joules += joules_of(f.parts, r.iteration_ms->mean * 1e-3, *watts);
  add_simulated_energy(joules, "simulated, by the machine's device.watts", r);
}

void sum_up(const Point& p, const std::vector<RankFigures>& ranks, const std::vector<double>& slowest,
            const std::string& peak_source, PointResult& r, const std::optional<Statistics>& all) {
  const auto merged = [&](const char* metric, const auto& figure) {
    return merge_ranks(metric, of_ranks(ranks, figure));
  };
  r.peak_memory_by_rank_mib = of_ranks(ranks, [](const RankFigures& f) { return mib(f.peak.total); });
  r.last_rank_memory_mib = r.peak_memory_by_rank_mib.back();
  r.peak_memory_mib = merge_ranks("peak_memory_mib", r.peak_memory_by_rank_mib);
  r.reserved_memory_mib = merged("reserved_memory_mib", [](const RankFigures& f) { return mib(f.reserved); });
  if (!r.simulated)
    r.library_memory_mib = merged("library_memory_mib", [](const RankFigures& f) { return mib(f.library); });
  r.communication_fraction = merged("communication_fraction", std::mem_fn(&RankFigures::communication_fraction));
  r.bubble_fraction = merged("bubble_fraction", std::mem_fn(&RankFigures::bubble_fraction));
  const double slowest_peak = merged("peak_tflops", std::mem_fn(&RankFigures::peak_flops)).value_or(0);
  double executed = 0;
  for (const RankFigures& f : ranks) executed += f.matmul_flops;
  // The anatomy is that of the first of the fullest ranks.
  const auto fullest = std::max_element(ranks.begin(), ranks.end(), [](const RankFigures& a, const RankFigures& b) {
    return a.peak.total < b.peak.total;
  });
  r.memory_anatomy_mib = anatomy_of(fullest->peak);
  add_host_memory(ranks, r);
  r.parameters = parameter_count(p.model, p.tp, p.vocab_multiple_used());
  if (p.adapter.on()) {
    r.frozen_parameters = *r.parameters - thawed_parameter_count(p.model);
    r.parameters = adapter_parameter_count(p.model, p.adapter);
  }
  add_router_load(ranks, r);
  if (p.device == "cpu" && !r.simulated) r.cpu_share_by_rank = of_ranks(ranks, std::mem_fn(&RankFigures::cpu_share));
  if (r.outcome != Outcome::ok || slowest.empty()) return;
  add_time(p, slowest, all, r);
  add_time_anatomy(ranks, r);
  add_communication(ranks, r);
  add_utilisation(p, executed, slowest_peak, peak_source, r);
}

PointResult run_point(const Point& p, const Plan& plan, Device& device, comm::World& world, const RunOptions& options) {
  check(world.size() == plan.mesh.world(), "run", "{} ranks, the plan needs {}", world.size(), plan.mesh.world());
  PointResult r;
  r.point = p;
  r.id = point_id(p);
  r.world = world.size();
  r.device = device.name();
  r.simulated = !device.real();

  std::unique_ptr<train::TokenSource> data;
  if (device.real()) data = train::open_data(p.data, p.model.vocab, p.seq, p.seed);
  train::Trainer trainer(plan, device, world, data.get());
  comm::Group& all = trainer.all_ranks();
  const MeasuredSteps mine = measure(p, device, trainer, world.rank() == 0, options, r);
  add_readings(mine.readings, all, r);
  if (mine.faults) r.device_faults = mine.faults->of_all(all);
  const double peak = options.measure_peak_flops ? options.measure_peak_flops(0.1) : 0;

  // What a GPU does in a replayed step is not told apart.
  const bool replayed = plan.capture && device.real() && !device.immediate();
  RankFigures figures;
  figures.peak = device.memory().peak();
  figures.reserved = device.memory().reserved();
  if (const Device* host = device.opened_host()) figures.set_host(host->memory().peak());
  if (mine.seconds > 0) {
    figures.communication_fraction = mine.meter.communication_seconds / mine.seconds;
    figures.bubble_fraction = mine.meter.bubble_seconds / mine.seconds;
    figures.cpu_share = mine.cpu_seconds / mine.seconds;
    if (replayed) figures.communication_fraction = figures.bubble_fraction = std::numeric_limits<double>::quiet_NaN();
  }
  if (device.immediate() || !device.real()) {
    const double steps = std::max<double>(1, static_cast<double>(mine.steps));
    figures.step = mine.seconds / steps;
    for (std::size_t i = 0; i < figures.parts.size(); ++i) figures.parts[i] = mine.meter.seconds[i] / steps;
  } else if (mine.looked_into > 0 && mine.steps > 0) {
    // Events between ops make the step that was looked into longer than those that were measured.
    figures.step = mine.seconds / static_cast<double>(mine.steps);
    for (std::size_t i = 0; i < figures.parts.size(); ++i)
      figures.parts[i] = mine.parts[i] * figures.step / mine.looked_into;
  }
  figures.matmul_flops = mine.meter.matmul_flops / std::max<double>(1, static_cast<double>(mine.steps));
  for (std::size_t i = 0; i < figures.sent.size(); ++i)
    figures.sent[i] = mine.meter.communication_bytes[i] / std::max<double>(1, static_cast<double>(mine.steps));
  figures.peak_flops = peak;
  figures.library = device.library_bytes();
  if (const auto* stream = dynamic_cast<const StreamDevice*>(&device)) r.gemm_epilogues = stream->gemm_choices();
  figures.imbalance_sum = mine.router_load.sum;
  figures.dispatches = static_cast<double>(mine.router_load.count);
  figures.largest_imbalance = mine.router_load.largest;
  figures.reruns = static_cast<double>(mine.router_load.reruns);
  const std::vector<RankFigures> ranks = comm::gather_all(all, figures);

  std::vector<double> slowest(mine.step_seconds.size(), 0);
  for (const std::vector<double>& times : comm::gather_all(all, mine.step_seconds)) {
    check(times.size() == slowest.size(), "run", "{} steps on a rank, need {} as on this one", times.size(),
          slowest.size());
    for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
  }
  std::optional<Statistics> of_all;
  if (mine.soak && mine.soak->soak().steps > 0) {
    of_all = mine.soak->statistics();
    for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = of_all->samples[i] * 1e-3;
  }
  sum_up(p, ranks, slowest, options.peak_source, r, of_all);
  if (device.real())
    add_counted(options, mine.energy, all, r);
  else
    add_energy(ranks, options.watts, r);
  if (device.real() && !slowest.empty() && r.outcome == Outcome::ok) add_ranks(mine, !replayed, all, r);
  if (options.turns && !slowest.empty() && r.outcome == Outcome::ok) add_turns(mine, options.turns->steps, all, r);
  return r;
}

}  // namespace mbench
