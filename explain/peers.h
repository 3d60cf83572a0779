// How far simulations are from published runs of the same kind: the interval of an expected step time. The errors are data in
// explain/published_errors.json, written by scripts/write-published-errors.
#pragma once
#include <cstddef>
#include <string>

#include "engine/point/point.h"

namespace mbench::explain {

// What decides which published runs are like a run.
struct Kind {
  std::string framework;
  bool experts = false, many_nodes = false;
  bool small = false;  // its steps are mostly the host's
};
Kind kind_of(const Point& point, int devices_of_node);

// Published time over simulated time.
struct RatioInterval {
  double low = 1, high = 1;
  std::size_t rows = 0;
  double share = 1;   // of the rows, that lie within
  std::string about;  // "dense models with megatron-core on one node"
};
// Uses the most alike runs, if there are enough: first those of the same kind, then without the framework, without the nodes, and all.
RatioInterval interval_of(const Kind& kind);

}  // namespace mbench::explain
