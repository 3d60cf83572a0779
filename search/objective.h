// What makes one layout better than another.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/sim/machine.h"

namespace mbench::search {

enum class Objective {
  time,               // of a step
  memory,             // of the fullest rank
  tokens_per_device,  // a second; layouts may leave devices idle
  devices,            // the fewest that reach a rate of tokens
  tokens_per_joule    // of all devices
};
// bad_input at `where`, with the nearest, for a name that is none.
Objective read_objective(const std::string& name, const std::string& where);
std::string_view name_of(Objective objective);

// Whether layouts that leave devices idle are no answer.
bool needs_all_devices(Objective objective);
// bad_input at `where` for an objective of which the machine's file has no figures.
void check_objective(Objective objective, const Machine& machine, const std::string& where);

// What a layout takes, or at least takes.
struct Costs {
  double ms = 0, mib = 0;
  std::int64_t world = 1;
  double joules = 0;
};
// Smaller is better; what decides a tie is second. Grows with each of the costs.
using Score = std::pair<double, double>;
Score score(Objective objective, const Costs& costs);

}  // namespace mbench::search
