#include "engine/sim/machine/straggler.h"

#include "engine/base/expected_largest.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

TEST_CASE("a step has the rates of its slowest device", "[straggler]") {
  Machine machine;
  CHECK(slowest_of(machine, 1024).device.power_share == 1);
  machine.device.rate_spread = 0.005;
  CHECK(slowest_of(machine, 1).device.power_share == 1);
  CHECK(slowest_of(machine, 8).device.power_share == Approx(1 / (1 + 0.005 * expected_largest(8))));
  CHECK(slowest_of(machine, 1024).device.power_share < slowest_of(machine, 8).device.power_share);
}

}  // namespace
