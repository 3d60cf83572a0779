// Two states that both runs visit, held against a change between the runs.
#include "reports/records/two_states.h"

#include <cmath>
#include <random>

#include "test/catch.h"

using namespace mbench::reports;

namespace {

constexpr double kTenTimes = 2.3;  // as a logarithm

// `factor` of the i-th of n steps of 100 ms, with 1 % of noise.
template <class Factor>
std::vector<double> steps(int n, unsigned seed, Factor factor) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> gauss;
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) samples.push_back(100 * factor(i) * (1 + 0.01 * gauss(random)));
  return samples;
}
double one(int) {
  return 1;
}

}  // namespace

TEST_CASE("two states: a change of every step is likelier, in runs of any length, and neither run has its own levels") {
  for (const int n : {12, 30, 300, 3000}) {
    int flat = 0;
    for (unsigned seed = 1; seed <= 10; ++seed) {
      const ChangeEvidence e = evidence_of_change(steps(n, seed, [](int) { return 1.08; }), steps(n, 100 + seed, one));
      INFO(n);
      CHECK(e.log > kTenTimes);
      flat += e.flat;
    }
    CHECK(flat >= 4);  // noise may look like two levels
  }
}

TEST_CASE("two states: few steps of one run at the level of the other are explained by states, at its ends or within") {
  const auto low = steps(30, 2, one);
  for (const int first : {0, 1, 12, 27, 28}) {
    const auto visits = steps(30, 1, [=](int i) { return i == first || i == first + 1 ? 1.0 : 1.08; });
    INFO(first);
    CHECK(evidence_of_change(visits, low).log < kTenTimes);
    CHECK(evidence_of_change(low, visits).log < kTenTimes);
  }
  // What lies elsewhere is no visit.
  const auto elsewhere = steps(30, 1, [](int i) { return i == 12 || i == 13 ? 1.3 : 1.08; });
  CHECK(evidence_of_change(elsewhere, low).log > kTenTimes);
}

TEST_CASE("two states: slow steps that recur in one run alone are its own mode") {
  const auto low = steps(40, 2, one);
  for (const int period : {2, 4}) {
    const ChangeEvidence e = evidence_of_change(steps(40, 1, [=](int i) { return i % period == 0 ? 1.2 : 1.0; }), low);
    INFO(period);
    CHECK(e.log > 2 * kTenTimes);
    CHECK_FALSE(e.flat);
  }
}

TEST_CASE("two states: runs without any noise, and of one value, are judged too") {
  const std::vector<double> low(20, 100.0), high(20, 110.0);
  CHECK(evidence_of_change(high, low).log > kTenTimes);
  CHECK(std::isfinite(evidence_of_change(low, low).log));
  CHECK(std::isfinite(evidence_of_change({5, 5, 5, 5, 6}, {5, 6, 5, 5, 5}).log));
}
