// Trains one step of a point on a simulated machine: the engine's own code, on devices that count and virtual
// clocks. One rank of each class of equal ranks runs (rank_classes.h): of a dense layout, of each pipeline stage.
//
// What a micro batch costs follows from shapes and from where the groups of ranks stand, not from which one it is. So
// the engine runs the first and the last micro batch of a step, once for classes that hold the same, and what it would
// do to clocks and allocator is recorded (recorder.h). The recording is replayed in the order of each stage's schedule:
// the clocks by the same arithmetic (replay.h), the allocator block by block by its own policy (replay_memory.h).
// Results are the bits of running every op, but for what PyTorch's allocator reserves, which takes more steps to say. Every op is run
// where a recording has no word for what a step does, as where gradients of weights are deferred.
//
// What a step costs follows from its Plan. Of the point stand here alone what a row says of it, how much memory it may take and its
// environment.
#pragma once
#include <optional>

#include "engine/run/run_point.h"
#include "engine/sim/machine.h"

namespace mbench {

namespace sim {
class Recordings;
}

struct Simulation {
  PointResult result;
  std::vector<MemoryUse> peak_by_stage;
  std::vector<std::size_t> reserved_by_stage;
  // Of host memory, where something lives there.
  std::vector<MemoryUse> host_peak_by_stage;
  std::vector<std::size_t> host_reserved_by_stage;
  std::uint64_t total_reserved = 0;  // over all ranks, of both memories where the device is the host
  // Seconds of a step that a rank of the stage computes: products, attention and elementwise. Empty where every op was run.
  std::vector<double> compute_by_stage;
  std::vector<Timeline> timeline_by_stage;  // empty unless asked for
};

struct SimulateOptions {
  bool trace = false;
  bool replay = true;                     // false: every op of every micro batch is run, to the same result
  sim::Recordings* recordings = nullptr;  // of this machine (recordings.h), where layouts are simulated again
};

// Throws what a stage threw (OutOfMemory naming the rank; of several stages the first), unsupported where the
// machine lacks the precision, infeasible where `devices` are too few.
Simulation simulate_point(const Point& point, const Plan& plan, const Machine& machine, int devices,
                          const SimulateOptions& options = {});

// What a simulation says without the allocator: the time of a step, and what the fullest rank has handed out at most. It
// takes a fraction of one, and differs from it in nothing; whether all of it fits, where blocks lie decides.
struct Outline {
  double seconds = 0;  // of a step, on the slowest rank
  MemoryUse peak;
  int rank = 0;       // the first that has it
  double joules = 0;  // of all devices; 0 where their power is not known
};
// Nothing where a simulation runs every op. Throws as simulate_point does, but never an out-of-memory.
std::optional<Outline> outline_point(const Point& point, const Plan& plan, const Machine& machine, int devices,
                                     sim::Recordings* recordings = nullptr);

}  // namespace mbench
