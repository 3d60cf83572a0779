// A GPU's sensors, by NVML: read ten times a second by a thread of their own.
#pragma once
#include <memory>
#include <string>

#include "engine/device/gauge.h"

namespace mbench::nvml {

// Of the GPU at that PCI address ("0000:1b:00.0"); null where NVML is not there or does not know it.
std::unique_ptr<Gauge> watch(const std::string& pci);

// Why there are no sensors to watch: no driver, or one that is too old. Empty if there are.
std::string why_none();

// Bits of NVML's clock event reasons as bits of kThrottleReasons. That a GPU idles is none.
std::uint32_t throttle_bits(unsigned long long reasons);

}  // namespace mbench::nvml
