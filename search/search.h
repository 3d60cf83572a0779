// Finds the best layouts of a space on a simulated machine, and says of every other one why it is not among them.
//
// Every layout that can be is looked at. Its floor (bounds.h) may say that it does not fit, or that it cannot be better than
// those already simulated; so may a closer one (close_bounds.h). Of the others, in the order of their floors, time and peak memory are simulated without placing blocks
// in memory (outline_point of engine/sim/simulate.h); what could then be among the best or on the front is simulated as `mbench
// sweep` would. All that in waves of a fixed size, so that neither the answer nor what was simulated depends on the number of threads.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/sim/machine.h"
#include "engine/spec/result.h"
#include "search/close_bounds.h"
#include "search/space.h"

namespace mbench::search {

enum class Objective {
  time,               // of a step
  memory,             // of the fullest rank
  tokens_per_device,  // a second; layouts may leave devices idle
  devices             // the fewest that reach a rate of tokens
};
Objective read_objective(const std::string& name, const std::string& where);
std::string_view name_of(Objective objective);

struct SearchOptions {
  Objective objective = Objective::time;
  double rate = 0;        // tokens/s, for Objective::devices
  std::size_t best = 10;  // how many are asked for
  bool front = true;      // the Pareto front of time and memory too
  int threads = 1;
  std::function<bool()> interrupted;  // asked between waves
  struct Progress {
    std::size_t layouts = 0, decided = 0, simulated = 0;
    std::optional<double> best_ms;
  };
  std::function<void(const Progress&)> progress;
};

// A layout that was simulated. One that does not fit is simulated with as much memory as it takes.
struct Tried {
  Point point;
  PointResult result;
  Floor floor;
  bool fits = true;
  int fullest_rank = 0;
  double needed_mib = 0;  // that the allocator held on the fullest rank
};

// Layouts that do not fit, and which rank and category decide.
struct TooLarge {
  std::size_t count = 0;
  Point example;
  double needed_mib = 0;  // the least that one of them takes
};

struct SearchEnd {
  std::vector<Tried> best;   // in order
  std::vector<Tried> front;  // of time and memory, fastest first
  // Faster than the best but too large, and of those what takes least: nothing if none was found.
  std::optional<Tried> larger;
  std::map<std::string, Refused> refused;        // layouts that cannot be, by reason
  std::map<std::string, TooLarge> too_large;     // "rank 0, activations"
  std::size_t layouts = 0;                       // that can be
  std::size_t too_slow = 0;                      // for the rate that was asked for
  std::size_t by_floor = 0, simulated = 0;       // decided by their floors; by a simulation
  std::size_t placed = 0;                        // of these, simulated block by block
  double limit_mib = 0;                          // that the allocator of a rank can have
  double floor_seconds = 0, total_seconds = 0;   // of wall clock
  bool interrupted = false;
};

struct Place {
  const Machine& machine;
  const Framework& framework;
  std::int64_t devices;
};

SearchEnd search(const Space& space, const Place& place, const SearchOptions& options);

// One layout, as the search simulates it, with its closest floor.
Tried try_layout(const Point& point, const Place& place, const Bounds& bounds, const CloseBounds& close);

// Simulates every layout of the space and holds it to its floor and to what the search found: what is wrong, one line
// each. Layouts that the search did not get to are not looked at.
std::vector<std::string> confirm(const Space& space, const Place& place, const SearchOptions& options,
                                 const SearchEnd& end);

// Smaller is better; what decides a tie is second.
std::pair<double, double> score(Objective objective, double ms, double mib, std::int64_t world);

}  // namespace mbench::search
