// Finds the best layouts of a space on a simulated machine, and gives for every other one the reason why it is not among them.
//
// The search goes through meshes (space.h: Layouts), the most promising first. It skips a mesh whose lower bound (mesh_bounds.h) is
// worse than what is looked for. On the others a layout's own lower bound (bounds.h), or a closer one (close_bounds.h), may decide: it
// does not fit, or it cannot be better than those already simulated.
//
// The rest are taken in the order of their lower bounds. Their time and peak memory are simulated without placing blocks in memory
// (outline_point of engine/sim/run/simulate.h). Where a layout could then be among the best or on the front, they are placed on its
// fullest rank (reserved_on). Where it still could be, it is simulated as `mbench sweep` would.
// Waves have a fixed size, so neither the answer nor what was simulated depends on the number of threads.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "search/objective.h"
#include "search/space.h"
#include "search/tried.h"

namespace mbench::search {

// A step that takes at most so many times the fastest's counts as equally fast: a simulation is not that exact.
inline constexpr double kAsFast = 1.005;

struct SearchOptions {
  Objective objective = Objective::time;
  double rate = 0;            // tokens/s, for Objective::devices
  std::size_t best = 10;      // how many are asked for
  bool front = true;          // the Pareto front of time and memory too,
  double front_within = 1.5;  // of layouts that take up to so many times the fastest one's time
  int threads = 1;
  std::function<bool()> interrupted;  // asked between waves
  struct Progress {
    std::size_t meshes = 0, decided_meshes = 0, layouts = 0, decided = 0, simulated = 0;
    std::optional<double> best_ms;
  };
  std::function<void(const Progress&)> progress;
};

// Layouts that do not fit, and which rank and category decide.
struct TooLarge {
  std::size_t count = 0;
  Point example;
  double needed_mib = 0;  // the least that one of them takes
};

struct SearchEnd {
  // In order. For the time objective the first is the layout within kAsFast of the fastest that leaves most memory free.
  std::vector<Tried> best;
  std::vector<Tried> front;  // of time and memory, fastest first
  // The one that takes the least memory of those that are too large but faster than the best; nothing if none was found.
  std::optional<Tried> larger;
  std::map<std::string, Refused> refused;     // impossible layouts, by reason
  std::map<std::string, TooLarge> too_large;  // "rank 0, activations"
  std::size_t meshes = 0, meshes_opened = 0;  // the others' lower bounds are above the best and the front
  std::size_t layouts = 0;                    // that are possible and were looked at
  std::size_t larger_micro_batches = 0;       // skipped: a smaller micro batch is already far too large
  std::size_t undercut = 0;  // skipped: one that fits takes less time than any on the mesh, and less memory
  std::size_t too_slow = 0;  // for the rate that was asked for
  std::size_t by_lower_bound = 0, simulated = 0;  // decided by their lower bounds; by a simulation
  std::size_t undecided = 0;                      // where the search was interrupted: neither
  std::size_t placed = 0;                         // of these, simulated block by block
  double limit_mib = 0;      // that the allocator of a rank may hold, without the margin of the place
  double total_seconds = 0;  // of wall clock
  bool interrupted = false;
};

SearchEnd search(const Space& space, const SearchTarget& place, const SearchOptions& options);

// Simulates every layout of the space and checks it against its lower bounds and against the search's answer.
struct Confirmed {
  std::size_t layouts = 0;         // that were simulated
  std::vector<std::string> wrong;  // one line each
};
Confirmed confirm(const Space& space, const SearchTarget& place, const SearchOptions& options, const SearchEnd& end);

}  // namespace mbench::search
