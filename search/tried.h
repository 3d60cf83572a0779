// A layout that was simulated, as `mbench sweep` would.
#pragma once
#include "engine/point/result.h"
#include "engine/sim/machine/machine.h"
#include "engine/sim/recording/recordings.h"
#include "search/close_bounds.h"
#include "search/objective.h"

namespace mbench::search {

struct SearchTarget {
  const sim::Machine& machine;
  std::int64_t devices;
  sim::Recordings* recordings = nullptr;  // of layouts that are looked at more than once
  double memory_margin_mib = 0;           // of each device, that a layout must leave free
  int threads = 1;                        // that one simulation may take
};

// A layout that does not fit is simulated with as much memory as it takes.
struct Tried {
  Point point;
  PointResult result;
  LowerBound lower_bound;
  bool fits = true;
  int fullest_rank = 0;
  double needed_mib = 0;  // that the allocator held on the fullest rank
};

Costs costs_of(const Tried& tried);

// The figures that such a layout needs and the machine's file lacks (engine/sim/run/step_costs.h); nothing if it has all.
std::optional<std::string> why_lacking(const Point& point, const sim::Machine& machine);

// Leaves `lower_bound` empty. `may_fit`: false where it is known not to.
Tried simulated(const Point& point, const SearchTarget& place, bool may_fit = true);

// What the allocator of a rank may hold: the machine's memory or the point's memory_limit, less the margin.
double limit_mib(const Point& point, const SearchTarget& place);

// With its closest lower bound.
Tried try_layout(const Point& point, const SearchTarget& place, const Bounds& bounds, const CloseBounds& close);

inline constexpr double kMiB = 1048576;

}  // namespace mbench::search
