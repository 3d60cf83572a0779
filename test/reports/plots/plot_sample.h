// Results and helpers for the tests of plots.
#pragma once
#include <fmt/format.h>

#include <string>

#include "reports/plots/plot.h"
#include "test/reports/sample.h"

namespace mbench::reports::sample {

// Data parallelism on 1, 2 and 4 times two devices, simulated: enough for lines over dp.
inline ResultFile scaling() {
  ResultFile file;
  file.environment = environment();
  file.spec = {
      {"name", "scaling"}, {"model", "gpt2-345m"}, {"sweep", {{"dp", {1, 2, 4}}, {"strategy", {"baseline", "full"}}}}};
  for (const int dp : {1, 2, 4})
    for (const char* strategy : {"baseline", "full"}) {
      PointResult r = point(2, 1, 1024, strategy);
      r.point.dp = dp;
      r.point.global_batch = 16 * dp;
      r.id = point_id(r.point);
      r.world = r.point.world();
      r.simulated = true;
      r.device = r.point.device = "sim:8xV100";
      const double t = (strategy[0] == 'f' ? 400.0 : 300.0) * (1 + 0.05 * (dp - 1));
      r = measured(r, {t, t, t, t}, 2000);
      r.tokens_per_s = 1024.0 * 16000 * dp / t;
      file.points.push_back(r);
    }
  return file;
}

// Tensor and pipeline parallelism of up to four, no strategy named, with a slow step in each.
inline ResultFile layouts() {
  ResultFile file;
  file.environment = environment();
  file.spec = {
      {"name", "layouts"}, {"model", "gpt2-345m"}, {"sweep", {{"tp,pp", {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}}}}}};
  const int shapes[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}};
  for (const auto& [tp, pp] : shapes) {
    const double t = 800.0 / (tp * pp) + 20 * (tp + pp);
    PointResult r = measured(point(tp, pp, 1024, ""), {t, t + 1, t + 2, 2 * t, t + 1}, 4000.0 / (tp * pp));
    r.tokens_per_s = 16384000 / t;
    file.points.push_back(r);
  }
  return file;
}

// A soak with a dip, of windows whose last has no clock, and a point that was trained without one.
inline ResultFile soak() {
  ResultFile file;
  file.environment = environment();
  file.spec = {{"name", "soak"}, {"model", "gpt2-345m"}, {"sweep", {{"tp", {2, 1}}}}};
  for (const int tp : {2, 1}) {
    PointResult r = measured(point(tp, 1, 1024, ""), {40, 40, 41}, 4000);
    if (tp == 2) {
      Soak& soak = r.soak.emplace();
      soak.seconds = 120, soak.steps = 1180;
      for (int i = 1; i <= 12; ++i) {
        SoakWindow& w = soak.windows.emplace_back();
        const bool dip = i == 5;
        w.end_s = 10 * i, w.steps = dip ? 80 : 100;
        w.median_ms = dip ? 50 : 40, w.worst_ms = dip ? 90 : 41;
        w.samples_per_s = dip ? 320 : 400 + i % 2;
        if (i < 12) w.clock_mhz = dip ? 1900 : 2400, w.least_clock_mhz = dip ? 1500 : 2390;
      }
    }
    file.points.push_back(r);
  }
  return file;
}

// A plot as lines of text: all that is in it.
inline std::string text_of_plot(const Plot& plot) {
  static const char* shapes[] = {"lines", "samples", "history", "boxes"};
  std::string out = fmt::format("{} [{}]\n{}: {}\nx: {}; y: {}\n{}\n", plot.name, shapes[static_cast<int>(plot.shape)],
                                plot.title, plot.heading, plot.x_label, plot.y_label, plot.note);
  if (plot.simulated) out += "simulated\n";
  for (std::size_t i = 0; i < plot.rows.size(); ++i) out += fmt::format("row {}: {}\n", i, plot.rows[i]);
  for (const PlotSeries& series : plot.series) {
    out += fmt::format("- {}{}:", series.name, series.is_guide ? " (guide)" : "");
    for (const PlotPoint& p : series.points) {
      if (plot.shape == PlotShape::boxes)
        out += fmt::format(" {}:{:.4g}..{:.4g}", p.y, p.x, p.end);
      else
        out += fmt::format(" ({:.6g}, {:.5g}){}{}", p.x, p.y,
                           p.bar ? fmt::format(" [{:.4g}, {:.4g}]", p.bar->first, p.bar->second) : "",
                           p.marked ? "!" : "");
    }
    for (const double gap : series.gaps) out += fmt::format(" gap at {}", gap);
    out += "\n";
  }
  return out;
}

}  // namespace mbench::reports::sample
