// What NVML reports of a GPU's health: ECC, remapped rows, PCIe, NVLink, and the Xids that come while it is watched.
#pragma once
#include <memory>
#include <string>

#include "engine/device/signature.h"

namespace mbench::platform::nvml {

// For the GPU at that PCI address; null where there is no NVML or it does not know the address.
std::unique_ptr<DeviceWatch> watch_faults(const std::string& pci);

}  // namespace mbench::platform::nvml
