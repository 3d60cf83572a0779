#include "engine/sim/machine/straggler.h"

#include <utility>

#include "engine/base/expected_largest.h"

namespace mbench::sim {

Machine slowest_of(Machine machine, std::int64_t devices) {
  machine.device.power_share /= 1 + machine.device.rate_spread * expected_largest(devices);
  return machine;
}

}  // namespace mbench::sim
