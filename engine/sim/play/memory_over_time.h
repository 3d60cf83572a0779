// What a rank has handed out over a simulated step, against the step's time. Blocks come and go as the host asks for them: in a forward or
// backward they are spread evenly over the time that the host is in it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/device/timeline.h"
#include "engine/sim/recording/memory_log.h"

namespace mbench::sim {

struct MemoryOverTime {
  struct Part {
    std::string name;
    double begin_ms = 0;
  };
  std::vector<Part> parts;                      // in order, micro batches that were left out among them
  std::vector<MemoryOverStep::Moment> moments;  // `at` in milliseconds since the step began
};

// `timeline`: of that rank, or of one of its class. A micro batch that was left out has the moments of the one before it. Nothing where the
// timeline has no forward or backward.
std::optional<MemoryOverTime> over_time(const MemoryOverStep& over, const Timeline& timeline);

}  // namespace mbench::sim
