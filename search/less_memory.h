// Which single change of a point takes less memory, and what it costs. For each change the memory is counted and the step simulated.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "search/advice.h"

namespace mbench::search {

struct LessMemory {
  std::string change;               // "recompute full"
  double freed_mib = 0;             // of the fullest rank's peak of handed-out memory
  std::optional<double> more_time;  // a share of the step; nothing where one of the two steps does not fit the machine
  bool fits = true;
};

// The possible changes that the point's framework supports, the most freed memory first. Changes that free less than 1 % are left out.
// World and global batch stay as they are. `now_ms`: the point's step; nothing where it does not fit.
std::vector<LessMemory> less_memory(const Point& point, std::optional<double> now_ms, const Simulate& simulate);

}  // namespace mbench::search
