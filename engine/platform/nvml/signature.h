// What NVML tells of a GPU's health: ECC, remapped rows, PCIe, NVLink, and the Xids that come while it is watched.
#pragma once
#include <memory>
#include <string>

#include "engine/device/signature.h"

namespace mbench::nvml {

// Of the GPU at that PCI address; null where NVML is not there or does not know it.
std::unique_ptr<DeviceWatch> watch_faults(const std::string& pci);

}  // namespace mbench::nvml
