// The energy counters of this host's CPU sockets: RAPL's packages and DRAM (/sys/class/powercap), else the sockets of hwmon's
// amd_energy (/sys/class/hwmon). They count all that runs on the host.
#pragma once
#include <memory>
#include <string>

#include "engine/device/energy.h"

namespace mbench::platform {

// Where nothing counts, or a counter cannot be read, its reading says so. A thread that otherwise sleeps reads often enough that no counter
// wraps unseen. `root` replaces / as the root of paths.
std::unique_ptr<EnergyMeter> open_cpu_energy(const std::string& root = "/");

}  // namespace mbench::platform
