#include "engine/base/cpu_quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace mbench {
namespace {

// "QUOTA PERIOD" in microseconds, of version 2; "max PERIOD": no quota.
std::optional<double> of_v2(const std::string& folder) {
  std::ifstream in(folder + "cpu.max");
  double quota = 0, period = 0;
  return in >> quota >> period && quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

// Of version 1; a quota of -1: none.
std::optional<double> of_v1(const std::string& folder) {
  std::ifstream of_quota(folder + "cpu.cfs_quota_us"), of_period(folder + "cpu.cfs_period_us");
  double quota = 0, period = 0;
  return of_quota >> quota && of_period >> period && quota > 0 && period > 0 ? std::optional(quota / period)
                                                                             : std::nullopt;
}

// Whether "cpu" is among controllers such as "cpu,cpuacct"; "cpuset" is another one.
bool has_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !has_cpu(controllers)) continue;
    // Version 1 mounts controllers by their names, often with links from each alone.
    const std::string mount = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
    for (std::string path = line.substr(second + 1);;) {
      const std::string folder = mount + path + "/";
      if (const auto cores = v2 ? of_v2(folder) : of_v1(folder)) least = std::min(least.value_or(*cores), *cores);
      if (path.empty() || path == "/") break;
      path.erase(path.rfind('/'));
    }
  }
  return least;
}

std::string cpu_quota_text(double cores) {
  return fmt::format("the CPU quota of this job (cgroup) is {:.3g} core{}", cores, cores == 1 ? "" : "s");
}

}  // namespace mbench
