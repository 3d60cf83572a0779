#include "engine/base/expected_largest.h"

#include "test/catch.h"

using namespace mbench;

// Expected largest of n normal deviates, by numbers (Harter 1961, Expected Values of Normal Order Statistics, table 1).
TEST_CASE("the expected largest of normal deviates is the published one") {
  CHECK(expected_largest(1) == 0);
  CHECK(expected_largest(2) == Approx(0.56419).epsilon(0.05));
  CHECK(expected_largest(8) == Approx(1.42360).epsilon(0.01));
  CHECK(expected_largest(50) == Approx(2.24907).epsilon(0.01));
  CHECK(expected_largest(400) == Approx(2.96818).epsilon(0.01));
  CHECK(expected_largest(2048) > expected_largest(1024));
}
