// What a comparison prints, in each format.
#include "reports/gate/compare.h"
#include "reports/gate/compare_report.h"
#include "reports/gate/junit.h"
#include "test/catch.h"
#include "test/reports/gate/one_point.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

TEST_CASE("markdown for a pull request: verdict, table, the rest folded away") {
  ResultFile now = sample::strategies(), base = sample::strategies();
  now.points[0].peak_memory_mib = 3000;
  const std::string text = render_comparison(compare_results(now, base, {}), "md");
  CHECK(text.substr(0, text.find('\n')) ==
        "## mbench: 930,086,912 bytes larger: tp 4, pp 2, seq 512, strategy baseline (1 of 20 points); "
        "V100 x 8, abc1234 against abc1234");
  CHECK_THAT(text, Contains("**1 larger**; "));
  CHECK_THAT(text, Contains("| tp 4, pp 2, seq 512, strategy baseline"));
  CHECK_THAT(text, Contains("2113 MiB | 3000 MiB | +42.0 %"));
  CHECK(text.find("**larger**") < text.find("<details>"));
  CHECK_THAT(render_comparison(compare_results(base, base, {}), "md"),
             Contains("## mbench: no regression in 20 points"));
  const auto json = nlohmann::json::parse(render_comparison(compare_results(now, base, {}), "json"));
  CHECK(json.at("regression") == true);
  CHECK(json.at("points").size() == 20);
  CHECK(json.at("points")[0].at("metrics")[1].at("verdict") == "larger");
  CHECK_THROWS_AS(render_comparison(compare_results(base, base, {}), "html"), Error);
}

TEST_CASE("disturbed samples are flagged beside their row") {
  ResultFile now = one(), base = one();
  std::vector<double> warming;
  for (int i = 0; i < 30; ++i) warming.push_back(i < 3 ? 150 : 100 + 0.1 * ((i * 7) % 5));
  now.points[0].iteration_ms = statistics_of(warming);
  const Comparison comparison = compare_results(now, base, {});
  REQUIRE(comparison.points[0].flags.size() >= 1);
  CHECK_THAT(comparison.points[0].flags[0], Contains("new: warming"));
  CHECK_THAT(render_comparison(comparison, "md"), Contains("same [1]") && Contains("; new: warming"));
  CHECK_THAT(render_comparison(comparison, "json"), Contains("new: warming"));
  CHECK_THAT(render_comparison(comparison, "junit"), Contains("new: warming"));
}

TEST_CASE("names with markup and letters of any language come out whole in every format") {
  ResultFile now = one(), base = one();
  for (ResultFile* file : {&now, &base}) {
    PointResult other = file->points[0];
    other.point.data = "text:a|b<c>\"d\" & 'Größe' 尺寸.txt";
    other.id = point_id(other.point);
    file->points.push_back(other);
  }
  now.points[1].peak_memory_mib = 2000;
  const Comparison comparison = compare_results(now, base, {});
  const std::string md = render_comparison(comparison, "md");
  CHECK_THAT(md, Contains("a\\|b\\<c\\>\"d\" & 'Größe' 尺寸.txt"));
  const auto json = nlohmann::json::parse(render_comparison(comparison, "json"));
  CHECK(json.at("points")[1].at("label") == "data text:a|b<c>\"d\" & 'Größe' 尺寸.txt");
  const std::string junit = render_comparison(comparison, "junit");
  CHECK_THAT(junit, Contains("a|b&lt;c&gt;&quot;d&quot; &amp; &apos;Größe&apos; 尺寸.txt"));
}

TEST_CASE("JUnit counts failures and what was skipped") {
  ResultFile now = sample::strategies(), base = sample::strategies();
  now.points[0].peak_memory_mib = 3000;
  now.points[1].point.seq = 99;
  now.points[1].id = point_id(now.points[1].point);
  const std::string text = render_comparison(compare_results(now, base, {}), "junit");
  CHECK_THAT(text, StartsWith("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites "));
  CHECK_THAT(text, Contains("failures=\"1\"") && Contains("<failure type=\"larger\" message=\"larger: +42 %"));
  CHECK_THAT(text, Contains("<skipped message=\"new; not in the baseline\"/>"));
  CHECK_THAT(text, Contains("<skipped message=\"missing; in the baseline (ok), not in the new results\"/>"));
  CHECK(escape_xml("a\x01\x02"
                   "b") == "a  b");
  // Characters that XML has none of.
  CHECK(escape_xml("a\xEF\xBF\xBF\xEF\xBF\xBE\xC3\xA9") == "a\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9");
}
