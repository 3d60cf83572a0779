#include "engine/device/gauge.h"

namespace mbench {

std::vector<std::string> throttle_names(std::uint32_t bits, bool faults_only) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kThrottleReasons.size(); ++i)
    if ((bits >> i & 1) != 0 && (kThrottleReasons[i].fault || !faults_only))
      names.emplace_back(kThrottleReasons[i].name);
  return names;
}

}  // namespace mbench
