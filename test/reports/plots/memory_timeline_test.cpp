// Memory over a step: what is kept of many moments, and the sums that the script draws.
#include "reports/plots/memory_timeline.h"

#include <cmath>
#include <sstream>

#include "reports/page/html.h"
#include "reports/plots/plot_script.h"
#include "test/catch.h"
#include "test/reports/plots/plot_sample.h"

using namespace mbench;
using namespace mbench::reports;
using Catch::Contains;

namespace {

// Weights that stay, activations that rise and fall once, and a short peak of workspace.
MemoryOverStep over_of(std::size_t count) {
  MemoryOverStep over;
  over.heading = "tp 2, rank 0";
  over.parts = {"begin", "forward 0", "backward 0", "optimizer"};
  for (std::size_t i = 0; i < count; ++i) {
    const double at = 4.0 * static_cast<double>(i) / static_cast<double>(count);
    MemoryOverStep::Moment m{at, {}};
    m.mib[static_cast<std::size_t>(Category::weights)] = 100;
    m.mib[static_cast<std::size_t>(Category::activations)] = 50 - 12.5 * std::abs(2 - at);
    if (i == 5 * count / 8) m.mib[static_cast<std::size_t>(Category::workspace)] = 1000;
    over.moments.push_back(m);
  }
  return over;
}

const PlotSeries& named(const Plot& plot, const std::string& name) {
  for (const PlotSeries& series : plot.series)
    if (series.name == name) return series;
  FAIL("no series " << name);
  return plot.series.front();
}

}  // namespace

TEST_CASE("memory over a step: of many moments a plot keeps a few, and the peak among them") {
  for (const std::size_t count : {8, 100, 100000}) {
    INFO(count << " moments");
    const Plot plot = memory_timeline_plot(over_of(count));
    REQUIRE(plot.series.size() == 3);  // of those that hold anything
    const std::vector<PlotPoint>& top = plot.series.back().points;
    CHECK(top.size() <= 603);
    CHECK(top.front().x == 0);
    CHECK(top.size() >= std::min<std::size_t>(count, 300));
    std::size_t marked = top.size();
    for (std::size_t i = 0; i < top.size(); ++i)
      if (top[i].marked) marked = i;
    REQUIRE(marked < top.size());
    CHECK(named(plot, "workspace").points[marked].y == 1000);
    for (const PlotSeries& series : plot.series) REQUIRE(series.points.size() == top.size());
    const double sum = 1100 + named(plot, "activations").points[marked].y;
    CHECK(plot.heading == fmt::format("tp 2, rank 0: {:.1f} MiB at the peak, in backward 0", sum));

    // Each series from the sum of those below, and the ring where all are summed.
    const std::string script = plot_script(plot, PlotTarget::svg, "");
    CHECK_THAT(script, Contains("$d2 using 1:2:3 with filledcurves") && Contains("'forward 0' 1"));
    std::istringstream ring(script.substr(script.find("$m << EOD") + 10));
    double x = 0, y = 0;
    ring >> x >> y;
    CHECK(x == Approx(top[marked].x));
    CHECK(y == Approx(sum));
  }
}

TEST_CASE("memory over a step stands against time where moments have one") {
  MemoryOverStep over = over_of(100);
  over.begins_ms = {0, 20, 50, 90};
  for (MemoryOverStep::Moment& m : over.moments) m.at *= 25;
  const Plot plot = memory_timeline_plot(over);
  CHECK(plot.x_label == "ms");
  CHECK(plot.rows.empty());
  CHECK_THAT(plot.heading, Contains("at the peak, in backward 0"));  // at 62 ms
  const std::string script = plot_script(plot, PlotTarget::svg, "");
  CHECK_THAT(script, Contains("set xlabel 'ms'") && Contains("set xrange [0:99]") && !Contains("set xtics left"));
}

TEST_CASE("memory over a step stands in a section of the page of its own, without tooltips") {
  Plot plot = memory_timeline_plot(over_of(40));
  const HtmlReport report = html_report({{"r.json", sample::strategies()}}, {}, {plot});
  if (report.notes.at(0).starts_with("No plots")) {
    WARN("not checked: " << report.notes[0]);
    return;
  }
  const std::size_t section = report.text.find("<h2>Memory</h2>");
  REQUIRE(section != std::string::npos);
  CHECK(report.text.find("<h2>Timeline</h2>") == std::string::npos);
  const std::string rest = report.text.substr(section);
  CHECK_THAT(rest, Contains("Counted from the plan of the point.") && Contains("<svg viewBox=") &&
                       Contains("peak 1143.8") && !Contains("class=\"tip\""));
}
