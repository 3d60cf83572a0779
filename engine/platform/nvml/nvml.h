// What the NVIDIA driver reports of this machine's GPUs and the links between them.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/link_matrix.h"

namespace mbench::platform::nvml {

// Each is null where the GPU does not report it.
struct GpuState {
  std::string name, pci;
  std::optional<double> memory_mib, memory_used_mib, power_w, power_cap_w, clock_mhz, max_clock_mhz;
  std::optional<double> utilization;  // share of time in which a kernel ran
  std::vector<std::string> throttle;  // what holds the clock down, in nvidia-smi's words
};

struct Report {
  std::string why_none;  // where the library is not there or refuses; the rest is empty then
  std::string driver;    // its version
  std::vector<GpuState> gpus;
  LinkMatrix links;
};

Report report();

// For people: a line for each GPU, the matrix of links and its legend.
std::string describe(const Report& report);

}  // namespace mbench::platform::nvml
