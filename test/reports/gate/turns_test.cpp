// Verdicts on sweeps that took turns, under a load that comes and goes: what is drawn here lasts longer than a turn, as builds of
// neighbours do, and makes single steps several times as long.
#include <cmath>
#include <random>

#include "reports/gate/compare.h"
#include "reports/gate/turns_verdict.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

struct Sides {
  ResultFile now, base;
};

// `slower`: of each step of the new side; `cpu`: of its CPU time. The clock's noise is the load and `noise` of every step.
Sides in_turns(std::mt19937& random, double slower, double cpu, double noise = 0.05, int turns = 100) {
  constexpr int steps = 5;
  std::normal_distribution<double> normal;
  std::bernoulli_distribution changes(0.05);  // of the load, with each turn
  double load = 1;
  std::vector<double> clock[2], of_cpu[2];
  for (int turn = 0; turn < turns; ++turn)
    for (int side = 0; side < 2; ++side) {
      if (changes(random)) load = std::exp(std::abs(normal(random)));
      for (int i = 0; i < steps; ++i) {
        clock[side].push_back(100 * (side ? slower : 1) * load * std::exp(noise * normal(random)));
        of_cpu[side].push_back(50 * (side ? cpu : 1) * std::sqrt(std::sqrt(load)) * std::exp(0.04 * normal(random)));
      }
    }
  const auto file = [&](int side) {
    ResultFile f;
    f.environment = sample::environment();
    f.points = {sample::measured(sample::point(4, 2, 512, "full"), clock[side], 1000)};
    f.points[0].turn_steps = steps;
    f.points[0].turn_cpu_ms = of_cpu[side];
    return f;
  };
  return {file(1), file(0)};
}

MetricComparison time_of(const Comparison& comparison) {
  REQUIRE(comparison.points.size() == 1);
  REQUIRE(comparison.points[0].metrics[0].metric == "time");
  return comparison.points[0].metrics[0];
}

Sides without_turns(Sides sides) {
  sides.now.points[0].turn_steps.reset();
  sides.base.points[0].turn_steps.reset();
  return sides;
}

int count(Verdict verdict, double slower, double cpu, double noise, int times, bool paired = true) {
  std::mt19937 random(7);
  int n = 0;
  for (int i = 0; i < times; ++i) {
    Sides sides = in_turns(random, slower, cpu, noise);
    if (!paired) sides = without_turns(std::move(sides));
    n += time_of(compare_results(sides.now, sides.base, {})).verdict == verdict;
  }
  return n;
}

}  // namespace

TEST_CASE("turns: under a load that comes and goes 5 % is found, and nothing where nothing changed") {
  CHECK(count(Verdict::slower, 1.05, 1.05, 0.05, 100) >= 95);
  CHECK(count(Verdict::faster, 1 / 1.05, 1 / 1.05, 0.05, 100) >= 95);
  CHECK(count(Verdict::same, 1, 1, 0.05, 100) >= 95);
  CHECK(count(Verdict::slower, 1, 1, 0.05, 100) == 0);
  CHECK(count(Verdict::slower, 1, 1, 0.5, 100) == 0);
  // The same samples, held against each other as two heaps, decide nothing.
  CHECK(count(Verdict::ambiguous, 1.05, 1.05, 0.05, 20, false) >= 19);
}

TEST_CASE("turns: where the clock cannot tell, CPU time finds what is slower, and does not say that nothing changed") {
  std::mt19937 random(3);
  const Sides slow = in_turns(random, 1.05, 1.06, 0.8);
  const MetricComparison found = time_of(compare_results(slow.now, slow.base, {}));
  CHECK(found.verdict == Verdict::slower);
  CHECK_THAT(found.reason, Contains("CPU time of the ranks +6") && Contains("the clock does not decide"));
  const Sides same = in_turns(random, 1, 1, 0.8);
  const MetricComparison open = time_of(compare_results(same.now, same.base, {}));
  CHECK(open.verdict == Verdict::ambiguous);
  CHECK_THAT(open.reason, Contains("CPU time of the ranks"));
  // A step that waits longer is slower by the clock.
  const Sides waits = in_turns(random, 1.06, 1, 0.05);
  CHECK(time_of(compare_results(waits.now, waits.base, {})).verdict == Verdict::slower);
}

TEST_CASE("turns: a stall that the middle of all pairs does not see is not the same") {
  std::mt19937 random(13);
  for (int i = 0; i < 20; ++i) {
    Sides sides = in_turns(random, 1, 1, 0.02, 200);
    std::vector<double> samples = sides.now.points[0].iteration_ms->samples;
    for (std::size_t k = 19; k < samples.size(); k += 20) samples[k] *= 5;
    sides.now.points[0].iteration_ms = statistics_of(samples);
    const MetricComparison c = time_of(compare_results(sides.now, sides.base, {}));
    CHECK(c.verdict != Verdict::same);
    CHECK(c.verdict != Verdict::faster);
    CHECK_THAT(c.reason, Contains("the mean of all turns +"));
  }
}

TEST_CASE("turns: all rounds are weighed together, and slower is what is slower in each") {
  std::mt19937 random(5);
  const auto verdict = [&](double first, double second) {
    const Sides a = in_turns(random, first, first), b = in_turns(random, second, second);
    const std::vector<Round> again = {{&b.now, &b.base}};
    const Comparison all = compare_results(a.now, a.base, {}, again);
    // What was asked of all rounds is not asked again.
    CHECK(time_of(confirmed(all, compare_results(b.now, b.base, {}))).verdict == time_of(all).verdict);
    return time_of(all);
  };
  CHECK(verdict(1.05, 1.06).verdict == Verdict::slower);
  CHECK(verdict(1, 1).verdict == Verdict::same);
  const MetricComparison odd = verdict(1.15, 1.0);
  CHECK(odd.verdict == Verdict::ambiguous);
  // Neither decides alone.
  const Sides a = in_turns(random, 1.1, 1, 0.2, 12), b = in_turns(random, 1.1, 1, 0.2, 12),
              c = in_turns(random, 1.1, 1, 0.2, 300);
  const std::vector<Round> again = {{&b.now, &b.base}, {&c.now, &c.base}};
  CHECK(time_of(compare_results(a.now, a.base, {})).verdict == Verdict::ambiguous);
  CHECK(time_of(compare_results(a.now, a.base, {}, again)).verdict == Verdict::slower);
}

TEST_CASE("turns: of four rounds one may be short of slower, and none be faster") {
  std::mt19937 random(11);
  const auto verdict = [&](std::vector<double> slower) {
    std::vector<Sides> rounds;
    for (const double each : slower) rounds.push_back(in_turns(random, each, each));
    std::vector<Round> again;
    for (std::size_t i = 1; i < rounds.size(); ++i) again.push_back({&rounds[i].now, &rounds[i].base});
    return time_of(compare_results(rounds[0].now, rounds[0].base, {}, again));
  };
  CHECK(verdict({1.05, 1.05, 1.05, 1.01}).verdict == Verdict::slower);
  CHECK(verdict({1.05, 1.05, 1.01}).verdict == Verdict::ambiguous);
  CHECK(verdict({1.05, 1.05, 1.01, 1.01}).verdict == Verdict::ambiguous);
  CHECK(verdict({1.08, 1.08, 1.08, 0.95}).verdict == Verdict::ambiguous);
}

TEST_CASE("turns: of unlike or too few turns samples are compared as ever") {
  std::mt19937 random(9);
  Sides sides = in_turns(random, 1, 1);
  CHECK(took_turns(sides.now.points[0], sides.base.points[0]));
  sides.now.points[0].turn_steps = 4;
  CHECK_FALSE(took_turns(sides.now.points[0], sides.base.points[0]));
  sides = in_turns(random, 1, 1);
  sides.base.points[0].turn_cpu_ms.pop_back();
  CHECK_FALSE(took_turns(sides.now.points[0], sides.base.points[0]));
  sides = in_turns(random, 1, 1, 0.05, 9);
  CHECK_FALSE(took_turns(sides.now.points[0], sides.base.points[0]));
}

TEST_CASE("signed ranks: estimate, interval and p-value by hand") {
  const SignedRanks r = signed_ranks({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 1);
  CHECK(r.estimate == 5.5);
  CHECK(r.interval.low == 2);
  CHECK(r.interval.high == 9);
  CHECK(r.p_value == Approx(std::erfc(27 / std::sqrt(96.25) / std::sqrt(2))));
  CHECK(r.least_p_value == Approx(r.p_value));
  CHECK(signed_ranks({-1, 1, -2, 2}, 1).p_value == Approx(1));
  CHECK(signed_ranks({10, 1, 9, 2, 8, 3, 7, 4, 6, 5}, 2).p_value > r.p_value);
  CHECK(signed_ranks({3}, 1).interval.low == 3);
  const SignedRanks many = signed_ranks(std::vector<double>(5000, 0.1), 1);
  CHECK(many.estimate == Approx(0.1));
}
