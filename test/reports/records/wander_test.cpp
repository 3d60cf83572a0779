// Levels that last within a run, and how little a run of few stays says.
#include "reports/records/wander.h"

#include <cmath>

#include "test/catch.h"

using namespace mbench::reports;

namespace {

// `factor` of the i-th of n steps of 100 ms, with 0.3 % of noise that is no pattern.
template <class Factor>
std::vector<double> steps(int n, Factor factor) {
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) samples.push_back(100 * factor(i) * (1 + 0.003 * std::sin(2.4 * i * i)));
  return samples;
}
template <class Factor>
Wander wander(int n, Factor factor) {
  const std::vector<double> samples = steps(n, factor);
  return wander_of(samples, slow_steps(samples));
}
Wanders wanders(const std::vector<double>& one, const std::vector<double>& other) {
  return wanders_of(one, slow_steps(one), other, slow_steps(other));
}

}  // namespace

TEST_CASE(
    "wander: states that last are seen with their stays, those that alternate by chance or by the clock are not") {
  const Wander lasting = wander(80, [](int i) { return i / 16 % 2 ? 1.04 : 1.0; });
  CHECK(lasting.by == Approx(std::log(1.04)).epsilon(0.05));
  CHECK(lasting.stays == 4);  // five, of which two are cut off
  CHECK(wander(80, [](int) { return 1.0; }).by == 0);
  CHECK(wander(80, [](int i) { return i % 4 == 3 ? 1.04 : 1.0; }).by == 0);
  CHECK(wander(81, [](int i) { return i * i % 7 < 3 ? 1.04 : 1.0; }).by == 0);
  CHECK(wander(80, [](int i) { return i == 40 ? 3.0 : 1.0; }).by == 0);  // one spike
  CHECK(wander(9, [](int i) { return i < 5 ? 1.0 : 1.04; }).by == 0);    // too few to say
}

TEST_CASE("wander: a change within the run is two stays that are cut off, a line is two") {
  const Wander step = wander(60, [](int i) { return i < 20 ? 1.0 : 1.04; });
  CHECK(step.by == Approx(std::log(1.04)).epsilon(0.05));
  CHECK(step.stays == 1);
  const Wander line = wander(60, [](int i) { return 1 + 0.001 * i; });
  CHECK(line.by == Approx(0.059).epsilon(0.1));
  CHECK(line.stays == 2);
}

TEST_CASE("wander: states are seen where most steps of a run are in the slow one") {
  const Wander mostly_slow = wander(30, [](int i) { return i >= 20 && i < 25 ? 1.0 : 1.1; });
  CHECK(mostly_slow.by == Approx(std::log(1.1)).epsilon(0.05));
  CHECK(mostly_slow.stays == 2);
}

TEST_CASE("wander: two runs together show states of which each holds few steps") {
  const auto ends_high = steps(30, [](int i) { return i >= 28 ? 1.1 : 1.0; });
  const auto ends_low = steps(30, [](int i) { return i >= 28 ? 1.0 : 1.1; });
  CHECK(wander_of(ends_high, slow_steps(ends_high)).by == 0);
  const Wanders both = wanders(ends_high, ends_low);
  for (const Wander& run : {both.one, both.other}) {
    CHECK(run.by == Approx(std::log(1.1)).epsilon(0.05));
    CHECK(run.stays == 1);
  }
  CHECK(doubt_of(both.one, both.other) > std::log(1.1));
  // A change from end to end shows none, and neither does one with a step or a stall here and there.
  const auto level = steps(30, [](int) { return 1.0; }), slower = steps(30, [](int) { return 1.1; });
  const auto stalls = steps(30, [](int i) { return i % 7 == 3 ? 1.1 : 1.0; });
  CHECK(doubt_of(wanders(level, slower).one, wanders(level, slower).other) == 0);
  CHECK(doubt_of(wanders(level, stalls).one, wanders(level, stalls).other) == 0);
  CHECK(doubt_of(wanders(stalls, slower).one, wanders(stalls, slower).other) == 0);
}

TEST_CASE("wander: a level that hardly moves does not vouch for one that does") {
  const Wander little{0.005, 2}, much{0.1, 3};
  CHECK(doubt_of(little, much) == doubt_of({}, much));
}

TEST_CASE("wander: what two runs may differ by falls with their stays") {
  const Wander none, two{0.04, 2}, many{0.04, 32};
  CHECK(doubt_of(none, none) == 0);
  CHECK(doubt_of(two, two) == Approx(2.576 * 0.02));
  CHECK(doubt_of(two, none) == doubt_of(two, two));  // may be one long stay
  CHECK(doubt_of(many, many) == Approx(2.576 * 0.04 * std::sqrt(2.0 / 128)));
  CHECK(doubt_of(many, none) == Approx(2.576 * 0.04 / std::sqrt(128)));  // would have shown
  CHECK(doubt_of(none, many) == doubt_of(many, none));
}
