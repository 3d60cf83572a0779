// The clocks of this process's cores as the kernel tells them: cpufreq's scaling_cur_freq where it is, else "cpu MHz" of /proc/cpuinfo,
// which on a virtual machine may be what the CPU is sold with.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/device/gauge.h"

namespace mbench {

// MHz, the mean over the cores of that number that tell; nothing if none does. `root` is what stands for /.
std::optional<double> cpu_mhz(const std::vector<int>& cores, const std::string& root = "/");

// Reads them once a second in a thread that sleeps else; null where nothing tells.
std::unique_ptr<Gauge> open_cpu_clock(const std::string& root = "/");

}  // namespace mbench
