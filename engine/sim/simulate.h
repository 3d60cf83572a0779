// Trains one step of a point on a simulated machine: the engine's own code, on devices that count and virtual
// clocks. One rank of each pipeline stage runs; it stands for its tensor- and data-parallel peers.
#pragma once
#include "engine/run/run_point.h"
#include "engine/sim/machine.h"

namespace mbench {

struct Simulation {
  PointResult result;
  std::vector<MemoryUse> peak_by_stage;
  std::vector<std::size_t> reserved_by_stage;
  std::uint64_t total_reserved = 0;         // over all ranks
  std::vector<Timeline> timeline_by_stage;  // empty unless asked for
};

// Throws what a stage threw (OutOfMemory naming the rank; of several stages the first), unsupported where the
// machine lacks the precision, infeasible where `devices` are too few.
Simulation simulate_point(const Point& point, const Plan& plan, const Machine& machine,
                          const Framework& framework, int devices, bool trace = false);

}  // namespace mbench
