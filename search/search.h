// Finds the best layouts of a space on a simulated machine, and says of every other one why it is not among them.
//
// Layouts are looked at by meshes (space.h: Layouts), the most promising first. One whose floor (mesh_bounds.h) is above what is
// looked for is never opened. Of a layout on one that is, its own floor (bounds.h) may say that it does not fit, or that it cannot be
// better than those already simulated; so may a closer one (close_bounds.h). Of the others, in the order of their floors, time and
// peak memory are simulated without placing blocks in memory (outline_point of engine/sim/simulate.h); what could then be among the
// best or on the front is simulated as `mbench sweep` would. All that in waves of a fixed size, so that neither the answer nor what
// was simulated depends on the number of threads.
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

// A step that takes so many times the fastest's is as fast: a simulation does not tell them apart.
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
  // In order; for the time, the first is of those within kAsFast of the fastest the one that leaves most memory free.
  std::vector<Tried> best;
  std::vector<Tried> front;  // of time and memory, fastest first
  // Faster than the best but too large, and of those what takes least: nothing if none was found.
  std::optional<Tried> larger;
  std::map<std::string, Refused> refused;     // layouts that cannot be, by reason
  std::map<std::string, TooLarge> too_large;  // "rank 0, activations"
  std::size_t meshes = 0, meshes_opened = 0;  // the others' floors are above the best, and above the front
  std::size_t layouts = 0;                    // that can be, and were looked at
  std::size_t larger_micro_batches = 0;       // not looked at: than those of others that are far too large
  std::size_t undercut = 0;  // not looked at: what fits takes less time than any on the mesh, and less memory
  std::size_t too_slow = 0;  // for the rate that was asked for
  std::size_t by_lower_bound = 0, simulated = 0;  // decided by their floors; by a simulation
  std::size_t placed = 0;                         // of these, simulated block by block
  double limit_mib = 0;      // that the allocator of a rank may hold: the margin of the place is off
  double total_seconds = 0;  // of wall clock
  bool interrupted = false;
};

SearchEnd search(const Space& space, const Place& place, const SearchOptions& options);

// Simulates every layout of the space and holds it to its floors and to what the search found.
struct Confirmed {
  std::size_t layouts = 0;         // that were simulated
  std::vector<std::string> wrong;  // one line each
};
Confirmed confirm(const Space& space, const Place& place, const SearchOptions& options, const SearchEnd& end);

}  // namespace mbench::search
