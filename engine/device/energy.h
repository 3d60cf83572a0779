// Energy counters of what a rank computes on: a GPU's own, or those of its host's sockets.
#pragma once
#include <optional>
#include <string>

namespace mbench {

struct EnergyReading {
  std::optional<double> joules;  // since the meter was opened; null where nothing counts or it cannot be read
  double seconds = 0;            // since then
  std::string counted;           // what counts: "one GPU of host h1". Ranks with the same text share a counter
  std::string source;            // "NVML's energy counter"; without joules why there are none
};

// Counts from its construction.
class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;
  virtual EnergyReading read() = 0;
};

}  // namespace mbench
