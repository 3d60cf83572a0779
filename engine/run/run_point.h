// Trains one point on one rank and, on rank 0, sums up the measurements of all ranks in a record.
//
// A sample is one optimizer step (data, forward, backward, gradient sync, optimizer) and nothing else. Between two samples, losses are
// read, progress is reported and limits are checked. Each sample begins when every rank is ready for it.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "engine/comm/group.h"
#include "engine/device/energy.h"
#include "engine/device/signature.h"
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
  // A soak measures steps for this many seconds instead of the point's iterations; 0: no soak. For each window, `open_gauge` opens the
  // sensors of this rank's device and may return null. `window` is called on rank 0 when a window ends.
  double soak_s = 0;
  std::function<std::unique_ptr<Gauge>()> open_gauge;
  std::function<std::unique_ptr<EnergyMeter>()>
      open_energy;  // of what this rank computes on; empty: energy is not asked for
  std::function<std::unique_ptr<DeviceWatch>()> watch_faults;  // of this rank's device; empty: faults are not asked for
  std::optional<PowerCurve> watts;                             // of a simulated device
  std::string why_no_sensors;  // why sensors cannot be read: printed with the row of a soak, whose clocks are unknown
  std::function<void(const SoakWindow&)> window;
  // Where two runs take turns: after this many measured steps, this run gives the machine to the other. Once all ranks are between two
  // steps, rank 0 calls `pass`, and then each rank calls `wait`.
  struct Turns {
    std::int64_t steps = 0;
    std::function<void()> pass, wait;
  };
  std::optional<Turns> turns;
  // Gets a step of this rank. On a real device it is one more step after the last sample, since tracing would disturb a sample.
  Timeline* timeline = nullptr;
};

// What a rank reports of its run.
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
  // Of learned routing: the fullest expert's tokens over the mean, summed over this many dispatches, and the largest of them.
  double imbalance_sum = 0, dispatches = 0, largest_imbalance = 0;
  double reruns = 0;     // steps that were run again without expert_rank_capacity, the same on every rank
  double cpu_share = 0;  // share of the measured time in which the main thread had a core; of CPU ranks only
  // Of the mean step, in seconds: its length, and its time by part. `host` is not set: it is the rest. Zero where it was not measured, as
  // for replayed steps of a GPU.
  double step = 0;
  TimeByPart parts{};
  ByAxis sent{};  // of the mean step: bytes handed to collectives and messages
};

// Of a simulated step where the power of its devices is known: the sum over the ranks' parts.
void add_energy(const std::vector<RankFigures>& ranks, const std::optional<PowerCurve>& watts, PointResult& record);

// Sums up the figures of all ranks, in their order. `slowest`: seconds of each measured step on the slowest rank. The record already has
// its outcome and whether it is simulated. `all`: the statistics of all steps, where `slowest` only stands for them.
void sum_up(const Point& point, const std::vector<RankFigures>& ranks, const std::vector<double>& slowest,
            const std::string& peak_source, PointResult& record, const std::optional<Statistics>& all = {});

// The record is complete on rank 0. A loss that is not finite (except for skipped fp16 steps) is outcome `wrong`. Throws OutOfMemory and
// Error on the rank where they happen. The caller must then end the job, since other ranks wait.
PointResult run_point(const Point& point, const Plan& plan, Device& device, comm::World& world,
                      const RunOptions& options);

}  // namespace mbench
