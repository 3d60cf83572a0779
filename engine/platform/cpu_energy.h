// The energy counters of this host's CPU sockets: RAPL's packages and DRAM (/sys/class/powercap), else the sockets of hwmon's
// amd_energy (/sys/class/hwmon). They count all that runs on the host.
#pragma once
#include <memory>
#include <string>

#include "engine/device/energy.h"

namespace mbench {

// Where nothing counts, or what does cannot be read, its reading says so. Looks often enough that no counter wraps unseen, in a thread
// that sleeps else. `root` is what stands for /.
std::unique_ptr<EnergyMeter> open_cpu_energy(const std::string& root = "/");

}  // namespace mbench
