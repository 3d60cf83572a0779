// What all changes together may cost.
#include "reports/gate/budget.h"

#include <random>

#include "reports/gate/headline.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

// A run of 60 steps of so many times 100 ms, under 2 % of noise.
ResultFile run_of(unsigned seed, double factor) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.02);
  std::vector<double> samples;
  for (int i = 0; i < 60; ++i) samples.push_back(100 * factor * noise(random));
  ResultFile file;
  file.environment = sample::environment();
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), std::move(samples), 1000)};
  return file;
}

}  // namespace

TEST_CASE("a budget is over, may be over, or is used in part") {
  Budget budget;
  set_budget(budget, "time=5%");
  CHECK_THROWS_WITH(set_budget(budget, "loss=5%"), Contains("--budget"));
  CHECK_THROWS_WITH(set_budget(budget, "time=5"), Contains("[--budget]"));
  const auto held = [&](double factor) {
    const ResultFile now = run_of(1, factor), last = run_of(2, factor / 1.01), first = run_of(3, 1);
    Comparison comparison = compare_results(now, last, {});
    CHECK_FALSE(comparison.regression());
    add_budget(comparison, compare_results(now, first, budget_options(budget)), budget,
               {{now.points[0].id, "v1 (2026-01-02)"}});
    return comparison;
  };
  const Comparison over = held(1.08);
  CHECK(over.fails());
  CHECK(over.points[0].metrics.back().metric == "time budget");
  CHECK_THAT(over.points[0].metrics.back().reason, Contains("over the budget of 5 % since v1 (2026-01-02)"));
  CHECK_THAT(headline_of(over), Contains("% slower, over the budget of 5 % since v1 (2026-01-02): "));
  const Comparison within = held(1.01);
  CHECK_FALSE(within.fails());
  CHECK(within.points[0].metrics.back().verdict == Verdict::same);
  CHECK_THAT(within.points[0].metrics.back().reason, Contains("of the budget of 5 % since v1"));
  const Comparison near = held(1.04);
  CHECK_FALSE(near.fails());
  CHECK(near.points[0].metrics.back().verdict == Verdict::ambiguous);
  CHECK_THAT(near.points[0].metrics.back().reason, Contains("may be over the budget"));
}
