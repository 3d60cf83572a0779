// Trains one point on one rank and, on rank 0, sums the measurements of all ranks up in a record.
#pragma once
#include <functional>

#include "engine/comm/group.h"
#include "engine/plan/plan.h"
#include "engine/spec/result.h"

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
  Timeline* timeline = nullptr;  // gets this rank's first measured step
};

// The record is complete on rank 0. A loss that is not finite (but for skipped fp16 steps) is outcome
// `wrong`. Throws OutOfMemory and Error on the rank they happen on; the caller must then end the job, since
// other ranks wait.
PointResult run_point(const Plan& plan, Device& device, World& world, const RunOptions& options);

}  // namespace mbench
