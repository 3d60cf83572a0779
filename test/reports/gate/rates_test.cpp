// How often the verdict on times is right, over shapes of noise and of slow-downs (step_shapes.h): at most 1 % of false alarms, and
// nothing that costs a tenth more is taken for no change. bench/gate_rates prints the same of more runs.
#include "test/catch.h"
#include "test/reports/gate/step_shapes.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::shapes;

namespace {

constexpr int kRuns = test::kSanitized ? 60 : 500;
constexpr int kChance = test::kSanitized ? 3 : 0;  // of so few runs a handful more is chance
constexpr double kThreshold = 0.05;

std::string text(const Shape& shape, const Rates& r, int samples) {
  return std::string(shape.name) + ", " + std::to_string(samples) + " samples: slower " + std::to_string(r.slower) +
         ", faster " + std::to_string(r.faster) + ", ambiguous " + std::to_string(r.ambiguous) + ", same " +
         std::to_string(r.same);
}

int percent_of_runs(double percent) {
  return static_cast<int>(percent * kRuns / 100) + kChance;
}

}  // namespace

TEST_CASE("rates: where nothing changed at most 1 % of comparisons raise a false alarm, whatever the noise") {
  for (const Shape& shape : of_no_change())
    for (const int samples : {30, 100}) {
      const Rates r = rates_of(shape, kRuns, samples, kThreshold);
      INFO(text(shape, r, samples));
      CHECK(r.slower + r.faster <= percent_of_runs(1));
    }
}

TEST_CASE("rates: states that last raise at most 1 % of false alarms in runs of five stays and more") {
  for (const Shape& shape : of_long_memory()) {
    const Rates r = rates_of(shape, kRuns, 200, kThreshold);
    INFO(text(shape, r, 200));
    CHECK(r.slower + r.faster <= percent_of_runs(1));
  }
}

TEST_CASE("rates: states of a third to a half of a run raise 1 % of false alarms, which chance may make 2 %") {
  for (const Shape& shape : of_long_memory())
    for (const char* held : {"two states 10 % apart, fifteen", "two states 20 % apart, ten"})
      if (std::string(shape.name).starts_with(held)) {
        const Rates r = rates_of(shape, kRuns, 30, kThreshold);
        INFO(text(shape, r, 30));
        CHECK(r.slower + r.faster <= percent_of_runs(2));
      }
}

TEST_CASE("rates: states as long as the run raise at most 1 % of alarms where both sides are measured twice") {
  for (const Shape& shape : of_long_memory()) {
    const Rates r = rates_of(shape, kRuns, 30, kThreshold, 2);
    INFO(text(shape, r, 30));
    CHECK(r.slower <= percent_of_runs(1));
  }
  const Shape slower = of_longer(0.05).front();
  const Rates r = rates_of(slower, kRuns, 30, kThreshold, 2);
  INFO(text(slower, r, 30));
  CHECK(r.slower >= kRuns - percent_of_runs(5));
}

TEST_CASE("rates: a single spike is no regression, and no reason to measure again") {
  for (const Shape& shape : of_no_change())
    if (std::string(shape.name).starts_with("one spike")) {
      const Rates r = rates_of(shape, kRuns, 30, kThreshold);
      INFO(text(shape, r, 30));
      CHECK(r.same >= kRuns - percent_of_runs(2));
    }
}

TEST_CASE("rates: 5 % more in every step is found in 30 samples of 2 % noise, in at least 95 %") {
  const Shape shape = of_longer(0.05).front();
  const Rates r = rates_of(shape, kRuns, 30, kThreshold);
  INFO(text(shape, r, 30));
  CHECK(r.slower >= kRuns - percent_of_runs(5));
}

TEST_CASE("rates: 5 % more in the mean is found or left open in 30 samples of 2 % noise, whatever its shape") {
  // What comes in few steps at random is in some runs of 30 in one step or in none, and these look like no change.
  const auto is_rare = [](const std::string& name) {
    return name.starts_with("10 %") || name.starts_with("5 %") || name.starts_with("stalls") ||
           name.starts_with("states");
  };
  for (const Shape& shape : of_longer(0.05)) {
    const std::string name = shape.name;
    if (name == "one spike" || name == "the first tenth") continue;  // paid once in a run
    const Rates r = rates_of(shape, kRuns / 2, 30, kThreshold);
    INFO(text(shape, r, 30));
    CHECK(r.overlooked <= (is_rare(name) ? percent_of_runs(3) / 2 : 0));
    CHECK(r.faster <= percent_of_runs(1) / 2);
    if (!is_rare(name)) CHECK(r.slower + r.ambiguous >= kRuns / 2 - percent_of_runs(5) / 2);
  }
}

TEST_CASE("rates: a tenth more is found or left open, however it hides") {
  for (const Shape& shape : of_longer(0.10)) {
    for (const int samples : {30, 60}) {  // of which some runs happen to have no slow step
      const Rates r = rates_of(shape, kRuns / 2, samples, kThreshold);
      INFO(text(shape, r, samples));
      CHECK(r.hidden == 0);
    }
    const Rates r = rates_of(shape, kRuns / 2, 200, kThreshold);
    INFO(text(shape, r, 200));
    CHECK(r.hidden == 0);
    CHECK(r.same + r.faster <= percent_of_runs(1));
  }
}

TEST_CASE("rates: an author who hides a tenth in any steps, and makes the others faster, is slower or ambiguous") {
  Random random(20261127);
  mbench::reports::TimeTest test;
  int slower = 0, hidden = 0, longer = 0;
  for (int run = 0; run < 10 * kRuns; ++run)
    for (const int samples : {12, 30, 60}) {
      const Steps base = normal()(random, samples), now = hide(random, samples, 0.10);
      if (reports::mean_of(now).mean < (1 + 1.5 * kThreshold) * reports::mean_of(base).mean) continue;  // chance
      const reports::TimeVerdict verdict = judge_time(test.weigh(now, base), kThreshold).verdict;
      ++longer;
      slower += verdict == reports::TimeVerdict::slower;
      hidden += verdict == reports::TimeVerdict::same || verdict == reports::TimeVerdict::faster;
    }
  CHECK(hidden == 0);
  CHECK(longer > 28 * kRuns);
  CHECK(slower > longer / 10);  // and not all is left open
}

TEST_CASE("rates: a tenth more in any steps is slower or ambiguous, whatever noise it hides in") {
  Random random(20261128);
  mbench::reports::TimeTest test;
  int hidden = 0, longer = 0;
  for (const Shape& shape : of_no_change())
    for (int run = 0; run < kRuns / 2; ++run)
      for (const int samples : {20, 40}) {
        const auto [base, now] = hidden_in(shape, random, samples, 0.10);
        if (reports::mean_of(now).mean < (1 + 1.5 * kThreshold) * reports::mean_of(base).mean) continue;  // chance
        const reports::TimeVerdict verdict = judge_time(test.weigh(now, base), kThreshold).verdict;
        ++longer;
        hidden += verdict == reports::TimeVerdict::same || verdict == reports::TimeVerdict::faster;
      }
  CHECK(hidden == 0);
  CHECK(longer > 20 * kRuns);
}

TEST_CASE("rates: what recurs as by the clock is slower, in 30 samples") {
  for (const double by : {0.05, 0.10})
    for (const Shape& shape : of_longer(by))
      for (const char* periodic : {"every step", "every 2nd step", "every 4th step"})
        if (shape.name == std::string(periodic)) {
          const Rates r = rates_of(shape, kRuns, 30, kThreshold);
          INFO(text(shape, r, 30));
          CHECK(r.slower >= kRuns - percent_of_runs(5));
        }
}
