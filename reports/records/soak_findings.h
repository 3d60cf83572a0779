// What happened to a soak over time, seen in its windows (engine/point/soak.h). The statistics are those of the gate (statistics.h).
// Fewer than 12 windows give no finding.
//
//   drift   The last third of the windows is slower than the first by 2 % or more, beyond doubt. The 99 % bootstrap interval of the
//           ratio of their steps' medians lies above 1.02, and the rank test agrees (p < 0.01). Both are widened where windows
//           depend on one another. Causes: a clock that goes down, a machine that becomes hot, a memory that fills.
//
//   dip     Windows in a row train 5 % fewer samples a second than the median of all. They are also 6 spreads (1.4826 times the
//           median distance from it) below. Something took the machine, or a link, for a while.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/point/soak.h"

namespace mbench::reports {

inline constexpr double kDrifts = 0.02, kDips = 0.05;

struct Dip {
  std::size_t first = 0, count = 0;  // windows
  double begin_s = 0, end_s = 0;
  double against = 1;  // samples/s of the least of them over the median of all
};

struct SoakFindings {
  double samples_per_s = 0;     // the median of the windows
  std::optional<double> drift;  // of the median step, the last third over the first; nothing where it does not drift
  std::vector<Dip> dips;        // in order
};
SoakFindings soak_findings(const Soak& soak);

// "drift: the last third of the soak is 4.2 % slower than the first, clock 2450 to 2300 MHz". Then "dips: ...", the deepest first.
// Empty where there is nothing to say.
std::string soak_text(const Soak& soak);

}  // namespace mbench::reports
