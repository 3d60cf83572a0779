// Recorded step times on which a gate of medians was wrong, in test/fixtures/gate: a stall of every fourth step, and fourteen revisions of
// 1 % each.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/base/json_reader.h"
#include "reports/baselines/baseline_store.h"
#include "reports/baselines/trend.h"
#include "reports/gate/compare.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

nlohmann::json fixture(const std::string& name) {
  return nlohmann::json::parse(read_text_file(MBENCH_SOURCE_DIR "/test/fixtures/gate/" + name));
}

ResultFile file_of(const std::vector<double>& samples, int number = 1) {
  ResultFile file;
  file.environment = sample::environment();
  const std::string two = fmt::format("{:02}", number);
  file.environment["started"] = "2026-01-" + two + "T00:00:00Z";
  file.environment["git_revision"] = "rev" + two;
  file.points = {sample::measured(sample::point(2, 1, 128, "baseline"), samples, 100)};
  return file;
}

MetricComparison time_of(const ResultFile& now, const ResultFile& base) {
  return compare_results(now, base, {}).points.at(0).metrics.at(0);
}

}  // namespace

TEST_CASE("recorded: a stall of every fourth step is slower, and named") {
  const auto runs = fixture("stall_every_4th_step.json");
  const ResultFile now = file_of(runs.at("new")), base = file_of(runs.at("old"));
  const MetricComparison c = time_of(now, base);
  CHECK(c.verdict == Verdict::slower);
  CHECK_THAT(c.reason, Contains("every 4th step at 3.0x, none in the baseline"));
  CHECK(c.mean->ratio == Approx(1.5).epsilon(0.02));
  CHECK(time_of(base, now).verdict == Verdict::faster);
  CHECK(time_of(now, now).verdict == Verdict::same);
}

TEST_CASE("recorded: fourteen revisions of 1 % pass one by one, and not against the oldest, a budget or a trend") {
  const auto runs = fixture("ramp.json").at("runs");
  const test::TemporaryFolder folder;
  const std::string dir = folder / "baselines";
  ResultFile last;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ResultFile now = file_of(runs[i], static_cast<int>(i) + 1);
    if (i > 0) CHECK_FALSE(is_regression(time_of(now, last).verdict));
    add_baselines(dir, now, {});
    last = now;
  }
  const MetricComparison whole = time_of(last, choose_baseline(dir, last, false, {Stand::oldest, ""}).results);
  CHECK(whole.verdict == Verdict::slower);
  CHECK(whole.mean->ratio == Approx(1.14).epsilon(0.02));
  const Trend trend = trends_of(read_baselines(dir), "time").at(0);
  CHECK(trend.drifts());
  CHECK(trend.changes.empty());
  CHECK(trend.line->per_entry == Approx(0.01).margin(0.001));
  CHECK_THAT(render_trends({trend}, "md"), Contains("drifts 1 % an entry since rev01") && Contains("the best step, +"));
}
