// Stored points over time, and whether their level changed.
#include "reports/baselines/trend.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "reports/plots/gnuplot.h"
#include "reports/plots/plot_script.h"
#include "reports/plots/sparkline.h"
#include "test/catch.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;

namespace {

std::vector<double> levels(unsigned seed, std::vector<std::pair<int, double>> parts, double noise = 0.01) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> values;
  for (const auto& [n, level] : parts)
    for (int i = 0; i < n; ++i) values.push_back(level * (1 + normal(random)));
  return values;
}

StoredBaseline stored(const std::vector<double>& medians, double memory = 100) {
  StoredBaseline s;
  s.machine = "a-machine";
  PointResult point = sample::point(2, 1, 128, "baseline");
  s.file.id = point.id;
  for (std::size_t i = 0; i < medians.size(); ++i) {
    BaselineEntry entry;
    entry.date = "2026-01-" + std::string(i < 9 ? "0" : "") + std::to_string(i + 1);
    entry.revision = "rev" + std::to_string(i + 1);
    entry.result = sample::measured(point, {medians[i], medians[i], medians[i]}, memory + (i >= 4 ? 7 : 0));
    s.file.history.push_back(entry);
  }
  return s;
}

}  // namespace

TEST_CASE("a change of level is found at the entry where it came") {
  int found = 0, right = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const auto changes = find_change_points(levels(seed, {{10, 100}, {10, 105}}));
    found += !changes.empty();
    for (const ChangePoint& c : changes)
      if (c.at == 10) {
        ++right;
        CHECK(c.p_value < 0.05);
        CHECK(c.before == Approx(100).epsilon(0.02));
        CHECK(c.after == Approx(105).epsilon(0.02));
      }
  }
  CHECK(found >= 99);
  CHECK(right >= 90);
}

TEST_CASE("several changes are found in order") {
  const auto changes = find_change_points(levels(3, {{12, 100}, {12, 110}, {12, 95}}, 0.005));
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].at == 12);
  CHECK(changes[1].at == 24);
  CHECK(changes[0].after == Approx(changes[1].before));
}

TEST_CASE("a series without a change keeps the level of the test, about one false change in twenty") {
  int normal = 0, heavy = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    normal += !find_change_points(levels(seed, {{20, 100}})).empty();
    std::mt19937_64 random(seed);
    std::student_t_distribution<double> t(3);
    std::vector<double> values;
    for (int i = 0; i < 20; ++i) values.push_back(100 + t(random));
    heavy += !find_change_points(values).empty();
  }
  CHECK(normal <= 34);  // of expected 20, three deviations above
  CHECK(heavy <= 34);
}

TEST_CASE("too few entries and levels without noise have no change") {
  CHECK(find_change_points({}).empty());
  CHECK(find_change_points({1, 1, 1, 2, 2}).empty());
  CHECK(find_change_points(std::vector<double>(50, 3.3)).empty());
}

TEST_CASE("of values without noise every change is named") {
  const auto changes = find_exact_changes({5, 5, 6, 6, 4});
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].at == 2);
  CHECK(changes[0].after == 6);
  CHECK(changes[1].at == 4);
  CHECK(find_exact_changes({5}).empty());
}

TEST_CASE("a sparkline runs from the least to the largest value") {
  CHECK(sparkline({1, 2, 3, 4, 5, 6, 7, 8}) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline({5, 5}) == "▁▁");
  CHECK(sparkline({}).empty());
}

TEST_CASE("a trend names the revision at which a point became slower") {
  const std::vector<StoredBaseline> all = {stored(levels(1, {{8, 100}, {8, 107}}, 0.003))};
  const auto trends = trends_of(all, "time");
  REQUIRE(trends.size() == 1);
  const std::string text = render_trends(trends, "md");
  CHECK_THAT(text, Contains("at rev9 (2026-01-09)") && Contains("p = 0.0") && Contains("▁") && Contains("█"));
  CHECK_THAT(text, Contains("model gpt2-345m"));
  const auto json = nlohmann::json::parse(render_trends(trends, "json"));
  CHECK(json.at("trends")[0].at("changes")[0].at("revision") == "rev9");
  CHECK(json.at("trends")[0].at("entries").size() == 16);
  const std::string memory = render_trends(trends_of(all, "memory"), "md");
  CHECK_THAT(memory, Contains("+7.00 % at rev5 (2026-01-05): 100.0 MiB to 107.0 MiB**"));
  CHECK_THAT(render_trends(trends_of({stored({100, 101})}, "time"), "md"), Contains("Too few entries"));
  CHECK_THROWS_AS(trends_of(all, "tme"), Error);
  CHECK_THROWS_AS(render_trends(trends, "html"), Error);
}

TEST_CASE("a trend's picture holds every value, marks every change and survives quotes") {
  auto trends = trends_of({stored(levels(1, {{8, 100}, {8, 107}}, 0.003)), stored({100, 110, 105})}, "time");
  trends[0].label = "it's";
  trends[1].label = "100 %_{x}";
  const Plot plot = trend_plot(trends);
  CHECK(plot.y_label == "time (ms)");
  REQUIRE(plot.series.size() == 2);
  CHECK(plot.series[0].points.size() == 16);
  CHECK(plot.changes == std::vector<double>{8.5});
  const std::string script = plot_script(plot, PlotTarget::svg, "o'ut.svg");
  CHECK_THAT(script, Contains("set terminal svg") && Contains("'o''ut.svg'") && Contains("'it''s'") &&
                         Contains("\n2 110 0\n") && Contains("set yrange [0:*]") &&
                         Contains("set arrow from 8.5, graph 0 to 8.5, graph 1 nohead"));
  CHECK_THAT(script, !Contains("logscale"));
  CHECK_THAT(plot_script(trend_plot(trends_of({stored({1, 2})}, "memory")), PlotTarget::pdf, "a.pdf"),
             Contains("set terminal pdfcairo") && Contains("'memory (MiB)'"));
}

TEST_CASE("a trend is drawn into a file of the kind that its name says, or it is said why not") {
  const Plot plot = trend_plot(trends_of({stored(levels(1, {{8, 100}, {8, 107}}, 0.003))}, "time"));
  const auto refusal = [&](const std::string& file, const std::string& program) -> std::string {
    try {
      draw_file(plot, file, "--plot", program);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::bad_input);
      return e.what();
    }
    return "";
  };
  CHECK_THAT(refusal("out.gif", "gnuplot"), Contains("[--plot] no such kind of picture, got \"out.gif\""));
  CHECK_THAT(refusal("out", "gnuplot"), Contains("need a file that ends in .svg, .png or .pdf"));
  CHECK_THAT(refusal("out.svg", "no-such-gnuplot"),
             Contains("[--plot] out.svg could not be drawn") && Contains("gnuplot-nox"));
  const test::TemporaryFolder programs;
  const std::string fake = programs / "gnuplot";
  std::ofstream(fake) << "#!/bin/sh\ncat > /dev/null\necho 'line 0: warning: iconv failed to convert degree sign' >&2\n"
                         "echo '\"-\" line 3: cannot open file; output not changed' >&2\nexit 1\n";
  std::filesystem::permissions(fake, std::filesystem::perms::owner_all);
  CHECK_THAT(refusal("out.svg", fake), Contains("gnuplot ended with 1: line 3: cannot open file"));
  if (draw_inline({plot}).svg.empty()) {
    WARN("not checked: there is no gnuplot on this machine");
    return;
  }
  const test::TemporaryFolder folder;
  const std::pair<const char*, const char*> kinds[] = {{"svg", "<svg"}, {"png", "PNG"}, {"pdf", "%PDF"}};
  for (const auto& [kind, head] : kinds) {
    INFO(kind);
    const std::string file = folder / (std::string("it's.") + kind);
    CHECK(refusal(file, "gnuplot").empty());
    CHECK_THAT(read_text_file(file).substr(0, 1000), Contains(head));
  }
  CHECK_THAT(refusal(folder / "none/out.svg", "gnuplot"),
             Contains("none/out.svg] could not be written: No such file or directory"));
}
