// A GPU's energy counter, by NVML: the energy of the whole board since its driver was loaded.
#pragma once
#include <memory>
#include <string>

#include "engine/device/energy.h"

namespace mbench::platform::nvml {

// The counter is updated some ten times a second: over less time than this it says little.
inline constexpr double kEnoughForEnergy = 1.0;  // seconds

// The counter of the GPU at that PCI address. Where there is no NVML, or the GPU does not count, its reading says so.
std::unique_ptr<EnergyMeter> count_energy(const std::string& pci);

}  // namespace mbench::platform::nvml
