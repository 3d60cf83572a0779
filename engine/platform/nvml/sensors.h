// A GPU's sensors, by NVML, read ten times a second by their own thread.
#pragma once
#include <memory>
#include <string>

#include "engine/device/gauge.h"

namespace mbench::platform::nvml {

// The sensors of the GPU at that PCI address ("0000:1b:00.0"); null where there is no NVML or it does not know the address.
std::unique_ptr<Gauge> watch(const std::string& pci);

// Why there are no sensors to watch: no driver, or one that is too old. Empty if there are.
std::string why_none();

// NVML's clock event reasons as bits of kThrottleReasons. An idle GPU is not a reason.
std::uint32_t throttle_bits(unsigned long long reasons);

}  // namespace mbench::platform::nvml
