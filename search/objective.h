// What makes one layout better than another.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace mbench::search {

enum class Objective {
  time,               // of a step
  memory,             // of the fullest rank
  tokens_per_device,  // a second; layouts may leave devices idle
  devices             // the fewest that reach a rate of tokens
};
// bad_input at `where`, with the nearest, for a name that is none.
Objective read_objective(const std::string& name, const std::string& where);
std::string_view name_of(Objective objective);

// Smaller is better; what decides a tie is second. Grows with each of its arguments.
using Score = std::pair<double, double>;
Score score(Objective objective, double ms, double mib, std::int64_t world);

}  // namespace mbench::search
