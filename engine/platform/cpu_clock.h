// The clocks of this process's cores as the kernel reports them: cpufreq's scaling_cur_freq if present, else "cpu MHz" of /proc/cpuinfo. On
// a virtual machine these may be the CPU's nominal clock.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/gauge.h"

namespace mbench::platform {

// MHz, the mean over those of `cores` that report a clock; nothing if none does. `root` replaces / as the root of paths.
std::optional<double> cpu_mhz(const std::vector<int>& cores, const std::string& root = "/");

// Reads them once a second in a thread that otherwise sleeps; null where no core reports a clock.
std::unique_ptr<Gauge> open_cpu_clock(const std::string& root = "/");

}  // namespace mbench::platform
