// Simulated durations are whole ticks of 2^-40 s, a little less than a picosecond. Sums and differences of them are exact up to 8192 s,
// so they are the same in any order and from any beginning on. What an action did once to clocks it does again.
#pragma once
#include <cmath>

namespace mbench::sim {

inline double whole_ticks(double seconds) {
  constexpr double kPerSecond = 0x1p40;
  return std::nearbyint(seconds * kPerSecond) / kPerSecond;
}

}  // namespace mbench::sim
