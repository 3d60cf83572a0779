// What makes one layout better than another.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/sim/machine/machine.h"

namespace mbench::search {

enum class Objective {
  time,               // of a step
  memory,             // of the fullest rank
  tokens_per_device,  // a second; layouts may leave devices idle
  devices,            // the fewest that reach a rate of tokens
  tokens_per_joule    // of all devices
};
// Throws bad_input at `where` for an unknown name, with the nearest known one.
Objective read_objective(const std::string& name, const std::string& where);
std::string_view name_of(Objective objective);

// Whether layouts must use all devices.
bool needs_all_devices(Objective objective);
// Throws bad_input at `where` if the machine's file lacks figures for the objective.
void check_objective(Objective objective, const sim::Machine& machine, const std::string& where);

// What a layout takes, or at least takes.
struct Costs {
  double ms = 0, mib = 0;
  std::int64_t world = 1;
  double joules = 0;
};
// Smaller is better; the second value decides ties. It grows with each of the costs.
using Score = std::pair<double, double>;
Score score(Objective objective, const Costs& costs);

}  // namespace mbench::search
