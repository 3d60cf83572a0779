// How many cores' worth of time a container's or batch job's control group allows this process.
#pragma once
#include <optional>
#include <string>

namespace mbench {

// Cores: quota over period of the control group (v1 or v2) of this process, or of the one above it that allows least. Nothing where none has
// a quota. `root` replaces / for proc and sys/fs/cgroup, for tests.
std::optional<double> cpu_quota(const std::string& root = "");

// "the CPU quota of this job (cgroup) is 1.5 cores"
std::string cpu_quota_text(double cores);

}  // namespace mbench
