#include "reports/plots/tooltips.h"

#include <fmt/format.h>

namespace mbench::reports {
namespace {

std::string number(double x) {
  return fmt::format("{:.6g}", x);
}

}  // namespace

bool has_tooltips(const Plot& plot) {
  if (plot.shape == PlotShape::areas) return false;  // a point's place is the sum of those below
  std::size_t points = 0;
  for (const PlotSeries& series : plot.series) points += series.points.size();
  return points > 0 && points <= kMostTooltips;
}

std::string tooltip_mark(std::size_t series, std::size_t point, bool end) {
  return fmt::format("tip {} {} {}", series, point, end ? 1 : 0);
}

std::string tooltip_text(const Plot& plot, std::size_t s, std::size_t i) {
  const PlotSeries& series = plot.series.at(s);
  const PlotPoint& p = series.points.at(i);
  const auto named = [](const std::string& label, double value) {
    return label.empty() ? number(value) : label + " " + number(value);
  };
  if (plot.shape == PlotShape::boxes) {
    const auto row = static_cast<std::size_t>(p.y);
    return fmt::format("{}{}: {}", row < plot.rows.size() ? plot.rows[row] + ", " : "", series.name,
                       named(plot.x_label, p.end - p.x));
  }
  std::string text =
      (series.name.empty() ? "" : series.name + ": ") + named(plot.x_label, p.x) + ", " + named(plot.y_label, p.y);
  if (p.bar)
    text += fmt::format(" ({} to {})", number(p.bar->first), number(p.bar->second));
  else if (p.spread > 0)
    text += " \u00B1 " + number(p.spread);
  return text + (p.marked ? ", an outlier" : "");
}

}  // namespace mbench::reports
