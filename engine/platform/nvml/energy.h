// A GPU's energy counter, by NVML: what the whole board took since its driver was loaded.
#pragma once
#include <memory>
#include <string>

#include "engine/device/energy.h"

namespace mbench::nvml {

// The counter moves some ten times a second: over less time than this it says little.
inline constexpr double kEnoughForEnergy = 1.0;  // seconds

// Of the GPU at that PCI address. Where NVML is not there, or the GPU does not count, its reading says so.
std::unique_ptr<EnergyMeter> count_energy(const std::string& pci);

}  // namespace mbench::nvml
