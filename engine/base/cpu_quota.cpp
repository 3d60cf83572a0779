#include "engine/base/cpu_quota.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "engine/base/control_groups.h"

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

}  // namespace

std::optional<double> cpu_quota(const std::string& root) {
  std::optional<double> least;
  for (const auto& [folder, v2] : control_groups("cpu", root))
    if (const auto cores = v2 ? of_v2(folder) : of_v1(folder)) least = std::min(least.value_or(*cores), *cores);
  return least;
}

std::string cpu_quota_text(double cores) {
  return fmt::format("the CPU quota of this job (cgroup) is {:.3g} core{}", cores, cores == 1 ? "" : "s");
}

}  // namespace mbench
