// Where a point runs, and how much memory and time it may take.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "engine/point/node_placement.h"

namespace mbench {

struct RunSpec {
  std::uint64_t memory_limit = 0;  // bytes; 0: what the device has
  double max_seconds = 0;          // 0: no limit
  std::map<std::string, std::string> env;
  std::int64_t ranks_per_node = 0;  // ranks on each host, in order; 0: as the launcher and its job place them
  // Simulation: on which leaves of the network the job's nodes stand, and what share of the leaves' uplinks other jobs take.
  NodePlacement placement;
  double background_load = 0;
  // Simulation: changed figures of the machine's file, by path ("network.gbps_per_device").
  std::map<std::string, double> machine;
  std::string device = "cpu";  // "cpu", "cuda" or "sim:<N>x<MACHINE>"

  bool simulated() const { return device.starts_with("sim:"); }
  bool operator==(const RunSpec&) const = default;
};

}  // namespace mbench
