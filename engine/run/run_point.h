// Trains one point on one rank and, on rank 0, sums the measurements of all ranks up in a record.
//
// A sample is one optimizer step (data, forward, backward, gradient sync, optimizer) and nothing else: losses are read,
// progress is told and limits are looked at between two samples, and each begins when every rank is ready for it.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "engine/comm/group.h"
#include "engine/device/energy.h"
#include "engine/plan/plan.h"
#include "engine/point/power_curve.h"
#include "engine/point/result.h"

namespace mbench {

struct Progress {
  bool warmup = false;
  std::int64_t iteration = 0, of = 0;  // within warm-up or measurement, from 1
  double ms = 0;                       // of this iteration, on this rank
  double loss = 0;
};

struct RunOptions {
  std::function<void(const Progress&)> progress;             // called on rank 0 after every iteration
  std::function<double(double seconds)> measure_peak_flops;  // of this rank's device
  std::string peak_source;
  // A soak: steps are measured for so many seconds, and not the point's iterations; 0: none. Opens sensors of this rank's device, which
  // may be null, for each window; and is called on rank 0 when one ends.
  double soak_s = 0;
  std::function<std::unique_ptr<Gauge>()> open_gauge;
  std::function<std::unique_ptr<EnergyMeter>()>
      open_energy;                  // of what this rank computes on; empty: energy is not asked for
  std::optional<PowerCurve> watts;  // of a simulated device
  std::string why_no_sensors;  // where they cannot be read: stands beside the row of a soak, whose clocks are unknown
  std::function<void(const SoakWindow&)> window;
  // Where two runs take turns: after so many measured steps this one gives the machine to the other. `pass` is called on rank 0 once all
  // ranks are between two steps, then `wait` on each.
  struct Turns {
    std::int64_t steps = 0;
    std::function<void()> pass, wait;
  };
  std::optional<Turns> turns;
  // Gets a step of this rank: on a real device one more after the last sample, which a trace would disturb.
  Timeline* timeline = nullptr;
};

// What a rank tells of its run.
struct RankFigures {
  MemoryUse peak;
  std::size_t reserved = 0, library = 0;
  // Of host memory, where something lives there.
  MemoryUse host_peak;
  bool has_host = false;
  void set_host(const MemoryUse& peak) { host_peak = peak, has_host = true; }
  double communication_fraction = 0, bubble_fraction = 0;  // of the measured time
  double matmul_flops = 0;                                 // of a step, executed
  double peak_flops = 0;                                   // of the device, per second
  // Of learned routing: the fullest expert's tokens over the mean, summed over so many dispatches, and the largest of them.
  double imbalance_sum = 0, dispatches = 0, largest_imbalance = 0;
  double cpu_share = 0;  // of the measured time that the main thread was given a core; of CPU ranks alone
  // Of the mean step, seconds: all of it, and by what it was spent on but for `host`, which is the rest. Zero where that
  // was not measured: of replayed steps of a GPU.
  double step = 0;
  TimeByPart parts{};
};

// Of a simulated step, where its devices' power is known: the sum over the ranks' parts.
void add_energy(const std::vector<RankFigures>& ranks, const std::optional<PowerCurve>& watts, PointResult& record);

// Sums the figures of all ranks up, in their order; `slowest`: seconds of each measured step on the slowest of them. The
// record has its outcome and whether it is simulated. `all`: the statistics of all steps, where `slowest` stands for them.
void sum_up(const Point& point, const std::vector<RankFigures>& ranks, const std::vector<double>& slowest,
            const std::string& peak_source, PointResult& record, const std::optional<Statistics>& all = {});

// The record is complete on rank 0. A loss that is not finite (but for skipped fp16 steps) is outcome
// `wrong`. Throws OutOfMemory and Error on the rank they happen on; the caller must then end the job, since
// other ranks wait.
PointResult run_point(const Point& point, const Plan& plan, Device& device, World& world, const RunOptions& options);

}  // namespace mbench
