// Energy in a comparison: one figure without a spread where it was measured.
#include "reports/gate/compare.h"
#include "reports/gate/compare_report.h"
#include "test/catch.h"
#include "test/reports/sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

ResultFile one() {
  ResultFile file;
  file.environment = sample::environment();
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), {100, 101, 99, 100, 100}, 1000)};
  return file;
}

MetricComparison metric(const Comparison& comparison, const std::string& name) {
  for (const MetricComparison& c : comparison.points.at(0).metrics)
    if (c.metric == name) return c;
  FAIL("no metric " << name);
  return {};
}

}  // namespace

TEST_CASE("energy is compared where it is asked for: exactly if simulated, else as one figure without a spread") {
  const auto with = [](double joules, bool simulated, const char* source = "RAPL, 1 package") {
    ResultFile file = one();
    file.points[0].simulated = simulated;
    if (simulated) file.points[0].losses.clear();
    file.points[0].energy_joules = joules;
    file.points[0].energy_source = source;
    return file;
  };
  const ResultFile base = with(100, false), simulated = with(100, true);
  const Comparison others = compare_results(with(200, false), base, {});
  CHECK(!others.points.at(0).metrics.empty());
  for (const auto& m : others.points.at(0).metrics) CHECK(m.metric != "energy");
  CompareOptions options;
  options.metrics = {"energy"};
  const auto verdict = [&](const ResultFile& now, const ResultFile& old) {
    return metric(compare_results(now, old, options), "energy").verdict;
  };
  CHECK(verdict(with(104, false), base) == Verdict::same);
  CHECK(verdict(with(107, false), base) == Verdict::ambiguous);
  CHECK(verdict(with(120, false), base) == Verdict::larger);
  CHECK(verdict(with(80, false), base) == Verdict::smaller);
  CHECK(verdict(with(100, false, "amd_energy, 1 socket"), base) == Verdict::ambiguous);
  CHECK(verdict(with(104, true), simulated) == Verdict::same);
  CHECK(verdict(with(106, true), simulated) == Verdict::larger);
  CHECK_THAT(render_comparison(compare_results(with(120, false), base, options), "md"),
             Contains("20.0 % more energy") && Contains("120.0 J"));
  set_threshold(options.thresholds, "energy=30%");
  CHECK(verdict(with(120, false), base) == Verdict::same);
  ResultFile unknown = one();
  CHECK_THROWS_WITH(compare_results(unknown, base, options), Contains("the baseline has its energy"));
}
