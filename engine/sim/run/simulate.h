// Simulates one step of a point on a machine: the engine's own code runs on devices that count and on virtual clocks. One rank of each
// class of equal ranks runs (rank_classes.h); in a dense layout a class is a pipeline stage.
//
// The cost of a micro batch follows from shapes and from where the groups of ranks are, not from its number. So the engine runs the
// micro batches that differ, usually the first and the last. What it would do to clocks and allocator is recorded (recorder.h). The
// recording is replayed in the order of each stage's schedule: the clocks by the same arithmetic (replay.h), the allocator block by block
// by its own policy (replay_memory.h).
//
// Results are bitwise those of running every op of every rank in threads (test/engine/sim/threaded). The exception is what PyTorch's
// allocator reserves, which takes more steps to find.
//
// The cost of a step follows from its Plan. The point only gives what a row reports of it, how much memory it may take, and its
// environment.
#pragma once
#include <optional>

#include "engine/run/run_point.h"
#include "engine/sim/machine/machine.h"

namespace mbench::sim {

class Recordings;

struct Simulation {
  PointResult result;
  std::vector<MemoryUse> peak_by_stage;
  std::vector<std::size_t> reserved_by_stage;
  // Of host memory, where something is kept there.
  std::vector<MemoryUse> host_peak_by_stage;
  std::vector<std::size_t> host_reserved_by_stage;
  // The first rank that has most of each share of its time.
  std::optional<std::int64_t> rank_of_communication, rank_of_bubble;
  std::uint64_t total_reserved = 0;  // over all ranks, of both memories where the device is the host
  // Seconds of a step that a rank of the stage computes: GEMMs, attention and elementwise.
  std::vector<double> compute_by_stage;
  std::vector<Timeline> timeline_by_stage;  // empty unless asked for
};

struct SimulateOptions {
  bool trace = false;
  bool tensors = false;              // the result has the tensors at the peak
  Recordings* recordings = nullptr;  // of this machine (recordings.h), where layouts are simulated again
  int threads = 1;  // that place the blocks of different ranks at the same time; figures do not depend on it
};

// Throws OutOfMemory, naming the first rank that has too little. Throws unsupported where the machine lacks the precision, infeasible where
// `devices` are too few.
Simulation simulate_point(const Point& point, const Plan& plan, const Machine& machine, int devices,
                          const SimulateOptions& options = {});

// Throws only those two.
void check_possible(const Point& point, const Plan& plan, const Machine& machine, int devices);
// Adds to a result what follows from its figures and the machine: the memory that nvidia-smi shows, and why a framework has no such step.
void describe(const Point& point, const Plan& plan, const Machine& machine, PointResult& result);

// The tensors at the peak of the rank that holds most, in a step of the engine on any real device: what it allocates is the same
// everywhere.
std::vector<PeakTensor> peak_tensors(const Plan& plan);

// A simulation without the allocator: the time of a step, and the peak that the fullest rank has handed out. It takes a fraction of the
// time and gives the same figures. Only the places of blocks decide whether all of it fits.
struct Outline {
  double seconds = 0;  // of a step, on the slowest rank
  MemoryUse peak;
  int rank = 0;       // the first that has it
  double joules = 0;  // of all devices; 0 where their power is not known
};
// Throws as simulate_point does, but never out_of_memory.
Outline outline_point(const Point& point, const Plan& plan, const Machine& machine, int devices,
                      Recordings* recordings = nullptr);

// What the allocator of that rank holds, with its libraries: a part of a simulation, and so no more than the fullest rank's. Nothing where
// the rank has too little memory.
std::optional<std::size_t> reserved_on(int rank, const Point& point, const Plan& plan, const Machine& machine,
                                       Recordings* recordings = nullptr);

}  // namespace mbench::sim
