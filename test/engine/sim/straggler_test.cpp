#include "engine/sim/machine/straggler.h"

#include "test/catch.h"

using namespace mbench;
using namespace mbench::sim;

namespace {

// Expected largest of n normal deviates, by numbers (Harter 1961, Expected Values of Normal Order Statistics, table 1).
TEST_CASE("the expected largest of normal deviates is the published one", "[straggler]") {
  CHECK(expected_largest(1) == 0);
  CHECK(expected_largest(2) == Approx(0.56419).epsilon(0.05));
  CHECK(expected_largest(8) == Approx(1.42360).epsilon(0.01));
  CHECK(expected_largest(50) == Approx(2.24907).epsilon(0.01));
  CHECK(expected_largest(400) == Approx(2.96818).epsilon(0.01));
  CHECK(expected_largest(2048) > expected_largest(1024));
}

TEST_CASE("a step has the rates of its slowest device", "[straggler]") {
  Machine machine;
  CHECK(slowest_of(machine, 1024).device.power_share == 1);
  machine.device.rate_spread = 0.005;
  CHECK(slowest_of(machine, 1).device.power_share == 1);
  CHECK(slowest_of(machine, 8).device.power_share == Approx(1 / (1 + 0.005 * expected_largest(8))));
  CHECK(slowest_of(machine, 1024).device.power_share < slowest_of(machine, 8).device.power_share);
}

}  // namespace
