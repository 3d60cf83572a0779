// Plots: what the declarations make of results, in gnuplot's words and in files.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "engine/base/json_reader.h"
#include "reports/page/svg_tooltips.h"
#include "reports/plots/build_plot.h"
#include "reports/plots/choose_plots.h"
#include "reports/plots/gnuplot.h"
#include "reports/plots/plot_script.h"
#include "reports/plots/report_plots.h"
#include "reports/plots/tooltips.h"
#include "reports/records/outliers.h"
#include "test/catch.h"
#include "test/reports/plots/plot_sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<Plot> plots_of(const ResultFile& file, const std::string& declaration) {
  std::vector<Plot> plots = report_plots(file, {}).plots;
  std::erase_if(plots, [&](const Plot& p) { return !p.name.starts_with(declaration); });
  return plots;
}

std::string refusal(const std::string& json) {
  try {
    plot_from_json("mine", nlohmann::ordered_json::parse(json), "plots.json: $");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

bool has_gnuplot() {
  Plot plot;
  plot.series.push_back({"a", {{1, 1}, {2, 2}}});
  const bool there = !draw_inline({plot}).svg.empty();
  if (!there) WARN("not checked: there is no gnuplot on this machine");
  return there;
}

}  // namespace

TEST_CASE("every declared plot comes out of the samples as its golden file says") {
  for (const PlotDeclaration& declaration : plot_declarations()) {
    if (declaration.kind == PlotKind::timeline) continue;  // of a trace: timeline_test.cpp
    INFO("plot " << declaration.name);
    std::string text;
    std::vector<ResultFile> files = declaration.kind == PlotKind::windows
                                        ? std::vector{sample::soak()}
                                        : std::vector{sample::strategies(), sample::scaling(), sample::layouts()};
    if (declaration.name == "energy" || declaration.name == "tokens-per-joule")
      for (ResultFile& file : files)
        for (PointResult& p : file.points)
          if (p.iteration_ms) {
            p.energy_joules = 0.3 * p.iteration_ms->mean * static_cast<double>(p.world);  // 300 W a device
            p.tokens_per_joule = static_cast<double>(p.point.global_batch * p.point.seq) / *p.energy_joules;
          }
    for (const ResultFile& file : files)
      for (const Plot& plot : plots_of(file, declaration.name)) text += sample::text_of_plot(plot) + "\n";
    const fs::path golden = fs::path(MBENCH_SOURCE_DIR) / "test/reports/plots/golden" / (declaration.name + ".txt");
    const fs::path got = fs::temp_directory_path() / ("mbench-" + declaration.name + ".txt");
    std::ofstream(got) << text;
    INFO("what came out: " << got);
    const bool there = fs::exists(golden);
    CHECK(there);
    if (there) CHECK(read_text_file(golden.string()) == text);
  }
}

TEST_CASE("a plot is made only where the data supports it") {
  ResultFile file = sample::strategies();
  SECTION("one value of x is no line") {
    std::erase_if(file.points, [](const PointResult& p) { return p.point.seq != 512; });
    CHECK(plots_of(file, "time-overhead").empty());
    CHECK(plots_of(file, "memory-anatomy").size() == 2);
  }
  SECTION("without a baseline there is nothing to compare with") {
    std::erase_if(file.points, [](const PointResult& p) { return p.point.strategy == "baseline"; });
    CHECK(plots_of(file, "time-overhead").empty());
  }
  SECTION("three samples have no outliers to show") {
    for (PointResult& p : file.points)
      if (p.iteration_ms) p.iteration_ms = statistics_of({1, 2, 3});
    CHECK(plots_of(file, "samples").empty());
  }
  SECTION("an anatomy that is not known is not drawn") {
    for (PointResult& p : file.points) p.memory_anatomy_mib.reset();
    CHECK(plots_of(file, "memory-anatomy").empty());
  }
  SECTION("no points, no plots") {
    file.points.clear();
    CHECK(report_plots(file, {}).plots.empty());
  }
  SECTION("more lines than can be told apart are left out, and that is said") {
    ResultFile many;
    many.spec = {{"sweep", {{"seq", {64, 128}}}}};
    PlotDeclaration one = plot_from_json("by-batch", nlohmann::ordered_json::parse(R"({"title": "By batch",
      "kind": "lines", "x": "seq", "series": "{micro_batch}", "y": "tokens_per_s"})"),
                                         "test");
    for (int batch = 1; batch <= 13; ++batch)
      for (const int seq : {64, 128}) {
        PointResult r = sample::point(1, 1, seq, "");
        r.point.micro_batch = batch;
        r.id = point_id(r.point);
        many.points.push_back(sample::measured(r, {1, 2, 3, 4}, 5));
      }
    const std::vector<Record> records = records_of(many);
    std::vector<const Record*> all;
    for (const Record& record : records) all.push_back(&record);
    const BuiltPlots built = build_plots({one}, all, swept_fields(many.spec, all));
    CHECK(built.plots.empty());
    REQUIRE(built.notes.size() == 1);
    CHECK_THAT(built.notes[0], Contains("\"By batch\" is not drawn 1 of 1 times: 13 lines, more than the 12"));
  }
}

TEST_CASE("no line is drawn across a point that failed") {
  ResultFile file = sample::strategies();
  for (const int seq : {1024, 4096}) {  // with 512 and 2048, which are there
    PointResult r = sample::point(4, 2, seq, "full");
    file.points.push_back(seq == 1024 ? sample::failed(r, Outcome::oom, "no room") : sample::measured(r, {1, 2}, 9));
    file.points.push_back(sample::measured(sample::point(4, 2, seq, "baseline"), {2, 3}, 10));
  }
  const std::vector<Plot> plots = plots_of(file, "time-overhead");
  const auto& lines = plots.at(0).series;
  const auto full = std::find_if(lines.begin(), lines.end(), [](const auto& s) { return s.name == "Full Recompute"; });
  REQUIRE(full != lines.end());
  CHECK(full->points.size() == 3);
  CHECK(full->gaps == std::vector<double>{1024});
  const std::string script = plot_script(plots[0], PlotTarget::svg, "");
  CHECK_THAT(script, Contains("512 43.05555556 ") && Contains("\n\n2048 36.81214421 "));
  // Bars from the low end of the interval to the high one.
  CHECK_THAT(script, Contains("using 1:2:3:4 with yerrorbars"));
}

TEST_CASE("what grows in proportion is a straight line, over few values and over many") {
  Plot plot;
  plot.series.push_back({"a", {{1, 50000}, {32, 900000}}});
  plot.series.push_back({"ideal", {{1, 50000}, {32, 1600000}}, {}, true});
  const std::string many = plot_script(plot, PlotTarget::svg, "");
  CHECK_THAT(many, Contains("set logscale x 2\n") && Contains("set logscale y 2\n"));
  CHECK_THAT(many, Contains("set ytics ('50k' 50000, '100k' 100000, '200k' 200000, '400k' 400000, '800k' 800000, "
                            "'1.6M' 1600000)"));
  plot.series[0].points[1].x = plot.series[1].points[1].x = 4;
  CHECK_THAT(plot_script(plot, PlotTarget::svg, ""), !Contains("logscale"));
}

TEST_CASE("outliers are what lies beyond Tukey's fences") {
  CHECK_FALSE(outliers_of({1, 2, 3}));
  CHECK(outliers_of({10, 11, 12, 13, 30}) == std::vector<bool>{false, false, false, false, true});
  CHECK(outliers_of({5, 5, 5, 5}) == std::vector<bool>{false, false, false, false});
  CHECK(outliers_of({-20, 10, 11, 12, 13}) == std::vector<bool>{true, false, false, false, false});
}

TEST_CASE("a declaration that cannot be is refused with its place") {
  CHECK_THAT(refusal(R"({"title": "T", "kind": "pie"})"),
             Contains("$.kind") && Contains("lines, samples, windows, stacked"));
  CHECK_THAT(refusal(R"({"kind": "lines"})"), Contains("title"));
  CHECK_THAT(refusal(R"({"title": "T", "kind": "lines", "x": "seq", "series": "a", "y": "mfu", "ylabel": "u"})"),
             Contains("ylabel") && Contains("y_label"));
  CHECK_THAT(refusal(R"({"title": "T", "kind": "lines", "series": "a", "y": "mfu"})"),
             Contains("\"x\"") || Contains("$.x"));
  CHECK_THAT(refusal(R"({"title": "T", "kind": "stacked", "bars": "a", "parts": 3})"), Contains("$.parts"));
  CHECK_THAT(refusal(R"({"title": "T", "kind": "samples", "series": "a", "y": {"value": "mfu"}})"), Contains("$.y"));
  CHECK(refusal(R"({"title": "T", "kind": "lines", "x": "seq", "series": "{tp}", "y": "mfu"})") == "accepted");
}

TEST_CASE("file names are plain and each stands once") {
  CHECK(plot_slug("Time: GPT-2 345M (TP 4), \u00e9/../x") == "time-gpt-2-345m-tp-4-x");
  CHECK(plot_slug("\u6a21\u578b") == "plot");
  CHECK(plot_slug(std::string(150, 'a') + " tail").size() <= 100);
  CHECK_THAT(plot_slug(std::string(150, 'a') + " tail"), Contains("-tail"));
  std::vector<Plot> plots(4);
  plots[0].name = plots[1].name = plots[3].name = "a";
  plots[2].name = "a-2";
  make_names_unique(plots);
  std::set<std::string> names;
  for (const Plot& plot : plots) names.insert(plot.name);
  CHECK(names.size() == 4);
}

TEST_CASE("of very many samples the extremes of neighbours are drawn, and the plot says so") {
  std::vector<double> samples(45'000, 100);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] += static_cast<double>(i % 7) * 0.01;
  samples[31'234] = 500;
  ResultFile file;
  file.environment = sample::environment();
  file.points = {sample::measured(sample::point(4, 2, 512, "full"), samples, 1000)};
  const auto drawn = [&] {
    for (const Plot& plot : report_plots(file, {}).plots)
      if (plot.title == "Every measured step") return plot;
    FAIL("no such plot");
    return Plot();
  };
  const Plot many = drawn();
  REQUIRE(many.series.size() == 1);
  const auto& points = many.series[0].points;
  CHECK(points.size() <= 20'000);
  CHECK(points.size() > 15'000);
  CHECK(std::is_sorted(points.begin(), points.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; }));
  CHECK(std::count_if(points.begin(), points.end(),
                      [](const PlotPoint& p) { return p.marked && p.y == 500 && p.x == 31'235; }) == 1);
  CHECK_THAT(many.note, Contains("Of 5 steps in a row the shortest and the longest are drawn."));
  file.points[0].iteration_ms->samples.resize(20'000);
  CHECK(drawn().series[0].points.size() == 20'000);
  CHECK_THAT(drawn().note, !Contains("in a row"));
}

TEST_CASE("no name can leave its place in gnuplot's script") {
  CHECK(quoted_for_gnuplot("it's \"x\" `y` \\n") == "'it''s \"x\" `y` \\n'");
  CHECK(quoted_for_gnuplot("a\nplot 'b'") == "'a plot ''b'''");
  if (!has_gnuplot()) return;
  const test::TemporaryFolder folder;
  const std::string trap = (folder.path / "trap").string();
  const std::string evil = "`touch " + trap + "`'\".system('touch " + trap + "').\"@x %d $d0 <b>&amp; | \u00e9\u6a21";
  Plot plot;
  plot.name = "evil";
  plot.shape = PlotShape::boxes;
  plot.title = plot.heading = plot.x_label = evil;
  plot.rows = {evil, "100%"};
  plot.series.push_back({evil, {{0, 0, 2}, {1, 1, 3}}});
  Plot lines = plot;
  lines.shape = PlotShape::lines;
  lines.rows.clear();
  const Drawing drawing = draw_inline({plot, lines});
  REQUIRE(drawing.svg.size() == 2);
  CHECK(drawing.notes.empty());
  CHECK_FALSE(fs::exists(trap));
  CHECK_THAT(drawing.svg[0], Contains("%d") && Contains("100%") && Contains("&lt;b>&amp;amp; | \u00e9\u6a21"));
}

TEST_CASE("plots are written as SVG and PNG") {
  if (!has_gnuplot()) return;
  const test::TemporaryFolder folder;
  const std::string target = (folder.path / "new" / "plots").string();
  const std::vector<Plot> plots = report_plots(sample::strategies(), {}).plots;
  const PlotFiles files = write_plots(plots, target);
  CHECK(files.notes.empty());
  CHECK(files.names.size() == 2 * plots.size());
  for (const std::string& name : files.names) {
    INFO(name);
    const std::string bytes = read_text_file(target + "/" + name);
    if (name.ends_with(".svg"))
      CHECK_THAT(bytes,
                 Contains("<svg") && Contains("</svg>") && (Contains("Parallelism") || Contains("Sequence Length")));
    else
      CHECK(bytes.substr(1, 3) == "PNG");
  }
}

TEST_CASE("where gnuplot is missing or fails, a note says so and there are no plots") {
  const std::vector<Plot> plots = report_plots(sample::strategies(), {}).plots;
  const Drawing none = draw_inline(plots, "no-such-gnuplot");
  CHECK(none.svg.empty());
  REQUIRE(none.notes.size() == 1);
  CHECK_THAT(none.notes[0], Contains("install") && Contains("gnuplot-nox") && !Contains("\n"));
  const Drawing failed = draw_inline(plots, "false");
  CHECK(failed.svg.empty());
  REQUIRE(failed.notes.size() == 1);
  CHECK_THAT(failed.notes[0], Contains("false ended with 1"));
  const Drawing silent = draw_inline(plots, "true");
  REQUIRE(silent.notes.size() == 1);
  CHECK_THAT(silent.notes[0], Contains("drew 0 of"));
  const test::TemporaryFolder folder;
  CHECK(write_plots(plots, folder.path.string(), "no-such-gnuplot").names.empty());
  CHECK(draw_inline({}, "no-such-gnuplot").notes.empty());
}

TEST_CASE("the plots of a sweep stand beside its tables") {
  if (!has_gnuplot()) return;
  const test::TemporaryFolder folder;
  std::vector<std::string> notes;
  const std::string lines = plots_next_to(folder.path.string(), sample::strategies(), notes);
  CHECK(notes.empty());
  CHECK_THAT(lines, Contains("## Plots\n\n### Time overhead against Baseline\n"));
  std::size_t images = 0;
  for (std::size_t at = 0; (at = lines.find("](plots/", at)) != std::string::npos; ++images) {
    at += 2;
    CHECK(fs::exists(folder.path / lines.substr(at, lines.find(')', at) - at)));
  }
  CHECK(images == report_plots(sample::strategies(), {}).plots.size());
}

TEST_CASE("of very many plots a sweep draws the first hundred and says so") {
  if (!has_gnuplot()) return;
  ResultFile file = sample::strategies();
  file.points.clear();
  for (int seq = 128; file.points.size() < 300; seq += 128)
    for (const char* strategy : {"baseline", "full"})
      file.points.push_back(sample::measured(sample::point(1, 1, seq, strategy), {100.0, 101.0}, 1000));
  const std::size_t all = report_plots(file, {}).plots.size();
  REQUIRE(all > 100);
  const test::TemporaryFolder folder;
  std::vector<std::string> notes;
  const std::string lines = plots_next_to(folder.path.string(), file, notes);
  const std::string left_out = fmt::format("100 of {} plots are drawn; for all of them: mbench report ", all);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes[0], Contains(left_out));
  CHECK_THAT(lines, Contains(left_out));
  CHECK(std::distance(fs::directory_iterator(folder.path / "plots"), fs::directory_iterator()) == 200);
}

namespace {

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

}  // namespace

TEST_CASE("tooltips: a page's plot tells series and numbers of each point and bar, and a file's has none") {
  Plot lines;
  lines.x_label = "Devices", lines.y_label = "Samples/s";
  lines.series.push_back({"tp <2>", {{1, 10}, {2, 19.5, 0, 0.25}}});
  lines.series.push_back({"it's 'tp 4'", {{1, 9, 0, 0, false, std::pair(8.0, 11.0)}}});
  CHECK(tooltip_text(lines, 0, 1) == "tp <2>: Devices 2, Samples/s 19.5 \u00b1 0.25");
  CHECK(tooltip_text(lines, 1, 0) == "it's 'tp 4': Devices 1, Samples/s 9 (8 to 11)");
  Plot bars;
  bars.shape = PlotShape::boxes;
  bars.rows = {"baseline", "full"};
  bars.x_label = "Time (ms)";
  bars.series.push_back({"GEMMs", {{0, 0, 30}, {0, 1, 44}}});
  bars.series.push_back({"Bubble", {{30, 0, 36}}});
  CHECK(tooltip_text(bars, 1, 0) == "baseline, Bubble: Time (ms) 6");
  CHECK(plot_script(lines, PlotTarget::svg, "").find("hypertext") == std::string::npos);
  Plot many = lines;
  many.series[0].points.assign(kMostTooltips + 1, {1, 1});
  CHECK(plot_script(many, PlotTarget::inline_svg, "").find("hypertext") == std::string::npos);
  if (!has_gnuplot()) return;
  const std::string drawn = with_tooltips(draw_inline({lines}).svg.at(0), lines);
  CHECK(count_of(drawn, "<circle class=\"tip\"") == 3);
  CHECK_THAT(drawn, Contains("<title>tp &lt;2&gt;: Devices 2, Samples/s 19.5 \u00b1 0.25</title>"));
  CHECK_THAT(drawn, Contains("<title>it&#39;s &#39;tp 4&#39;: Devices 1, Samples/s 9 (8 to 11)</title>"));
  CHECK(drawn.find("onmouse") == std::string::npos);
  const std::string boxes = with_tooltips(draw_inline({bars}).svg.at(0), bars);
  CHECK(count_of(boxes, "<rect class=\"tip\"") == 3);
  // Widths are as the bars': 30 to 44 to 6.
  std::vector<double> widths;
  for (std::size_t at = 0; (at = boxes.find("class=\"tip\"", at)) != std::string::npos; ++at)
    widths.push_back(std::stod(boxes.substr(boxes.find("width=\"", at) + 7)));
  REQUIRE(widths.size() == 3);
  CHECK(widths[1] / widths[0] == Approx(44.0 / 30).epsilon(0.01));
  CHECK(widths[2] / widths[0] == Approx(6.0 / 30).epsilon(0.02));
}

TEST_CASE(
    "a page shows a dozen plots: of every kind, those that vary most, none that says nothing before one that does") {
  const auto plot = [](const std::string& kind, const std::string& heading, double from, double to) {
    Plot p;
    p.title = kind, p.heading = heading;
    p.series.push_back({"a", {{1, from}, {2, to}}});
    return p;
  };
  std::vector<Plot> plots;
  for (int i = 0; i < 10; ++i) plots.push_back(plot("time", fmt::format("{}", i), 10, 11 + i));
  for (int i = 0; i < 10; ++i) plots.push_back(plot("memory", fmt::format("{}", i), 10, i == 4 ? 20 : 10.1));
  plots.push_back(plot("energy", "0", 5, 9));
  const auto shown = [](const std::vector<Plot>& all) {
    std::string text;
    for (const Plot& p : all) text += p.title[0] + p.heading + " ";
    return text;
  };
  CHECK(shown(choose_plots(plots, 4)) == "t8 t9 m4 e0 ");
  const std::vector<Plot> dozen = choose_plots(plots);
  CHECK(dozen.size() == 12);
  CHECK(shown(dozen) == "t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 m4 e0 ");
  plots.resize(3);
  CHECK(choose_plots(plots).size() == 3);
}
