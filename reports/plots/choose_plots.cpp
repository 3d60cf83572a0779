#include "reports/plots/choose_plots.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace mbench::reports {
namespace {

constexpr double kVaries = 0.02;

// How far its values lie apart, as a share of the largest: lengths of the whole bars of a row, or y.
double variation_of(const Plot& plot) {
  std::map<double, double> rows;  // length of each bar
  double low = INFINITY, high = -INFINITY;
  const auto add = [&](double value) { low = std::min(low, value), high = std::max(high, value); };
  for (const PlotSeries& series : plot.series) {
    if (series.is_guide) continue;
    for (const PlotPoint& p : series.points)
      if (plot.shape == PlotShape::boxes)
        rows[p.y] = std::max(rows[p.y], p.end);
      else
        add(p.y);
  }
  for (const auto& [row, length] : rows) add(length);
  const double largest = std::max(std::abs(low), std::abs(high));
  return largest > 0 && std::isfinite(largest) ? (high - low) / largest : 0;
}

}  // namespace

std::vector<Plot> choose_plots(std::vector<Plot> plots, std::size_t most) {
  if (plots.size() <= most) return plots;
  struct Ranked {
    std::size_t index, turn = 0;
    double variation;
  };
  std::map<std::string, std::vector<Ranked>> kinds;
  for (std::size_t i = 0; i < plots.size(); ++i) kinds[plots[i].title].push_back({i, 0, variation_of(plots[i])});
  std::vector<Ranked> all;
  for (auto& [title, kind] : kinds) {
    std::stable_sort(kind.begin(), kind.end(),
                     [](const Ranked& a, const Ranked& b) { return a.variation > b.variation; });
    for (std::size_t turn = 0; turn < kind.size(); ++turn) {
      kind[turn].turn = turn;
      all.push_back(kind[turn]);
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) {
    const bool says = a.variation > kVaries, other = b.variation > kVaries;
    if (says != other) return says;
    return a.turn != b.turn ? a.turn < b.turn : a.index < b.index;
  });
  all.resize(most);
  std::sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.index < b.index; });
  std::vector<Plot> chosen;
  for (const Ranked& r : all) chosen.push_back(std::move(plots[r.index]));
  return chosen;
}

}  // namespace mbench::reports
