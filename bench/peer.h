// Whole training steps compared with the same steps in PyTorch (scripts/peer_torch.py): in one run, one after the other.
#pragma once
#include <functional>
#include <string>

#include "engine/point/point.h"

namespace mbench {

// Milliseconds of a step: by the wall clock, and of CPU time over all threads, which others on the machine change little.
struct StepTime {
  double wall_ms = 0, cpu_ms = 0;
};

// `python` is one that has torch. Of what it can do (both meanings of bf16, compiled or not) the fastest counts. Throws where it fails.
//
// Prints, for one rank, a row for each model, precision, sequence length and dropout, and mbench's 16 bits against its own f32. Each
// step runs in a process of its own (this program with --step=POINT, which prints its times). For several ranks, prints the model of
// the quickstart under data parallelism. PyTorch's side is DistributedDataParallel over gloo.
//
// `only`: of the first, only rows of models whose names contain it. `ours` takes a point and gives medians of its steps; all ranks call
// it. The `first` rank prints and runs PyTorch while the others sleep in `wait`, which all leave together.
void print_peers(const std::string& python, const std::string& only);
void print_data_parallel_peer(const std::string& python, int ranks, bool first,
                              const std::function<StepTime(const Point&)>& ours, const std::function<void()>& wait);

}  // namespace mbench
