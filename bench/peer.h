// Whole training steps of gpt2-345m beside the same steps in PyTorch (scripts/peer_torch.py): in one run, one after the other.
#pragma once
#include <functional>
#include <string>

#include "engine/spec/point.h"

namespace mbench {

// Milliseconds of a step: by the wall clock, and of CPU time over all threads, which others on the machine change little.
struct StepTime {
  double wall_ms = 0, cpu_ms = 0;
};

// Prints a row for each precision, sequence length and dropout: `ours` takes a point and gives medians of its steps. `python` is one
// that has torch; of what it can do (both meanings of bf16, compiled or not) the fastest counts. Throws where it fails.
void print_peers(const std::string& python, const std::function<StepTime(const Point&)>& ours);

}  // namespace mbench
