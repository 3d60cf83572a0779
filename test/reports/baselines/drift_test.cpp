// Entries that drift: no revision is to blame, and none is named; and what later results are held against.
#include "reports/baselines/drift.h"

#include <cmath>
#include <random>

#include "engine/base/error.h"
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

// One point of so many entries, the i-th `factor(i)` times as slow.
template <class Factor>
std::vector<StoredBaseline> entries(unsigned seed, int n, Factor factor) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> noise(1, 0.02);
  StoredBaseline stored;
  stored.machine = "a-machine";
  const PointResult point = sample::point(2, 1, 128, "baseline");
  stored.file.id = point.id;
  for (int i = 0; i < n; ++i) {
    std::vector<double> samples;
    for (int k = 0; k < 30; ++k) samples.push_back(100 * noise(random) * factor(i));
    BaselineEntry entry;
    entry.date = "2026-01-" + std::string(i < 9 ? "0" : "") + std::to_string(i + 1);
    entry.revision = "rev" + std::to_string(i + 1);
    entry.result = sample::measured(point, samples, 100);
    stored.file.history.push_back(entry);
  }
  return {stored};
}

Trend trend_of(const std::vector<StoredBaseline>& stored) {
  return trends_of(stored, "time").at(0);
}

ResultFile results(const std::string& started, const std::string& revision, double factor) {
  ResultFile file;
  file.environment = sample::environment();
  file.environment["started"] = started;
  file.environment["git_revision"] = revision;
  std::mt19937_64 random(std::hash<std::string>()(revision));
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<double> samples;
  for (int i = 0; i < 30; ++i) samples.push_back(100 * factor * noise(random));
  file.points = {sample::measured(sample::point(2, 1, 128, "baseline"), samples, 100)};
  return file;
}

}  // namespace

TEST_CASE("drift: 1 % an entry is a line, and no revision is named") {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Trend trend = trend_of(entries(seed, 14, [](int i) { return std::pow(1.01, i); }));
    REQUIRE(trend.drifts());
    CHECK(trend.line->instead_of_steps);
    CHECK(trend.changes.empty());
    CHECK(trend.line->per_entry == Approx(0.01).margin(0.002));
  }
  const Trend trend = trend_of(entries(1, 14, [](int i) { return std::pow(1.01, i); }));
  const std::string text = render_trends({trend}, "md");
  CHECK_THAT(text, Contains("**drifts ") && Contains(" % an entry since rev") && Contains("the best step, ") &&
                       Contains("BIC"));
  CHECK_THAT(text, !Contains("No change of level"));
  const auto json = nlohmann::json::parse(render_trends({trend}, "json"));
  CHECK(json.at("trends")[0].at("drift").at("per_entry") > 0.005);
  CHECK(json.at("trends")[0].at("changes").empty());
}

TEST_CASE("drift: one that begins later says since when") {
  const Trend trend = trend_of(entries(2, 20, [](int i) { return i < 8 ? 1.0 : std::pow(1.012, i - 7); }));
  REQUIRE(trend.drifts());
  CHECK(trend.line->since >= 5);
  CHECK(trend.line->since <= 9);
}

TEST_CASE("drift: a step is a step, and no change is neither") {
  int drifts = 0, level = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Trend step = trend_of(entries(seed, 16, [](int i) { return i < 8 ? 1.0 : 1.07; }));
    drifts += step.drifts();
    CHECK(step.changes.size() >= 1);
    level += trend_of(entries(seed, 16, [](int) { return 1.0; })).drifts();
  }
  CHECK(drifts == 0);
  CHECK(level <= 1);
  CHECK_FALSE(find_drift({100, 101, 102, 103}, {}).has_value());
  // Both with their evidence, whichever it is.
  const Trend step = trend_of(entries(1, 16, [](int i) { return i < 8 ? 1.0 : 1.07; }));
  REQUIRE(step.line);
  CHECK(step.line->step_bic < step.line->line_bic);
  CHECK_THAT(render_trends({step}, "md"), Contains("- the step, BIC ") && Contains("; a line of +") &&
                                              Contains("of the variance, BIC ") && Contains("; one level, BIC "));
  const auto json = nlohmann::json::parse(render_trends({step}, "json")).at("trends")[0];
  CHECK(json.at("drift").is_null());
  CHECK(json.at("line").at("line_bic") > json.at("line").at("step_bic"));
}

TEST_CASE("drift: a trend of means sees stalls that a trend of medians does not") {
  auto stored = entries(4, 16, [](int) { return 1.0; });
  for (std::size_t e = 8; e < 16; ++e) {
    std::vector<double> samples = stored[0].file.history[e].result.iteration_ms->samples;
    for (std::size_t i = 3; i < samples.size(); i += 4) samples[i] *= 2;
    stored[0].file.history[e].result.iteration_ms = statistics_of(samples);
  }
  REQUIRE(trend_of(stored).changes.size() == 1);
  CHECK(trend_of(stored).changes[0].at == 8);
  CHECK(trends_of(stored, "median").at(0).changes.empty());
}

TEST_CASE("what later results are held against: the newest, the oldest, the pinned, the best") {
  const test::TemporaryFolder folder;
  const std::string dir = folder / "baselines";
  const std::pair<const char*, double> history[] = {{"a", 1.0}, {"b", 0.9}, {"c", 1.1}, {"d", 1.2}};
  int month = 0;
  for (const auto& [revision, factor] : history)
    add_baselines(dir, results("2026-0" + std::to_string(++month) + "-01T00:00:00Z", revision, factor), {});
  const ResultFile now = results("2026-08-01T00:00:00Z", "now", 1.2);
  const auto held = [&](Stand stand) { return choose_baseline(dir, now, false, {stand, ""}); };
  const auto origin = [&](Stand stand) { return held(stand).origins.at(now.points[0].id); };
  CHECK(origin(Stand::newest) == "d (2026-04-01)");
  CHECK(origin(Stand::oldest) == "a (2026-01-01)");
  CHECK(origin(Stand::best) == "b (2026-02-01)");
  CHECK(origin(Stand::pinned_or_oldest) == "a (2026-01-01)");
  CHECK_THROWS_WITH(held(Stand::pinned), Contains("that is pinned (mbench baseline pin)"));
  CHECK(pin_entries(read_baselines(dir), "c").size() == 1);
  CHECK(pin_entries(read_baselines(dir), "none").empty());
  CHECK(origin(Stand::pinned) == "c (2026-03-01)");
  CHECK(origin(Stand::pinned_or_oldest) == "c (2026-03-01)");
  CHECK(pin_entries(read_baselines(dir), "").size() == 1);  // the newest, in its place
  CHECK(origin(Stand::pinned) == "d (2026-04-01)");
  CHECK(pin_entries(read_baselines(dir), "a").size() == 1);
  // What is pinned is kept beside the newest.
  AddOptions two;
  two.keep = 2;
  add_baselines(dir, results("2026-05-01T00:00:00Z", "e", 1.2), two);
  const auto kept = read_baselines(dir).at(0).file.history;
  REQUIRE(kept.size() == 3);
  CHECK(kept[0].revision == "a");
  CHECK(kept[0].pinned);
  CHECK(kept[1].revision == "d");
  CHECK_FALSE(compare_results(now, held(Stand::newest).results, {}).regression());
  CHECK(compare_results(now, held(Stand::pinned).results, {}).regression());
  CHECK(unpin_entries(read_baselines(dir)).size() == 1);
  CHECK_THROWS_AS(held(Stand::pinned), Error);
  CHECK_THROWS_WITH(stand_named("oldes", "--against"), Contains("did you mean \"oldest\"?"));
}

TEST_CASE("an entry keeps its anatomy in a line each, and what older entries lack is unknown") {
  const test::TemporaryFolder folder;
  const std::string dir = folder / "baselines";
  const ResultFile now = results("2026-01-01T00:00:00Z", "a", 1);
  const std::string path = add_baselines(dir, now, {}).written.at(0);
  const std::string text = read_text_file(path);
  CHECK_THAT(text, Contains("\"time_anatomy_ms\": {\"attention\": "));
  const ResultFile read = baseline_for(dir, now, false, "");
  REQUIRE(read.points[0].time_anatomy_ms);
  CHECK(read.points[0].time_anatomy_ms->ms == now.points[0].time_anatomy_ms->ms);
  CHECK(read.points[0].memory_anatomy_mib->mib == now.points[0].memory_anatomy_mib->mib);
  BaselineFile file = read_baseline_file(path);
  file.history[0].result.time_anatomy_ms.reset();
  file.history[0].result.memory_anatomy_mib.reset();
  write_baseline_file(path, file);
  CHECK_THAT(read_text_file(path), !Contains("anatomy"));
  CHECK_FALSE(baseline_for(dir, now, false, "").points[0].time_anatomy_ms);
}
