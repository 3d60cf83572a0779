#include "reports/plots/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mbench::reports {
namespace {

using Moment = MemoryOverStep::Moment;

constexpr std::size_t kMostMoments = 600;  // two for each pixel and a half of a broad plot

double total(const Moment& m) {
  return std::accumulate(m.mib.begin(), m.mib.end(), 0.0);
}

bool is_fuller(const Moment& a, const Moment& b) {
  return total(a) < total(b);
}

// The first moment, and of each stretch of a step the fullest and the last.
std::vector<Moment> fewer(const std::vector<Moment>& all) {
  if (all.size() <= kMostMoments) return all;
  const double end = all.back().at - all.front().at, stretches = kMostMoments / 2.0;
  std::vector<Moment> kept;
  for (auto from = all.begin(); from != all.end();) {
    const auto stretch = [&](const Moment& m) { return std::floor((m.at - all.front().at) / end * stretches); };
    const auto to = std::find_if(from, all.end(), [&](const Moment& m) { return stretch(m) != stretch(*from); });
    const auto most = std::max_element(from, to, is_fuller);
    kept.push_back(*most);
    if (most + 1 != to) kept.push_back(*(to - 1));
    from = to;
  }
  if (kept.front().at > all.front().at) kept.insert(kept.begin(), all.front());
  return kept;
}

}  // namespace

Plot memory_timeline_plot(const MemoryOverStep& over) {
  Plot plot;
  plot.shape = PlotShape::areas;
  plot.name = "memory-timeline";
  plot.title = "Memory over a step";
  plot.y_label = "MiB";
  plot.is_broad = true;
  plot.simulated = over.simulated;
  plot.rows = over.parts;
  const std::vector<Moment> moments = fewer(over.moments);
  const auto peak = std::max_element(moments.begin(), moments.end(), is_fuller);
  const auto part = std::min(static_cast<std::size_t>(peak->at), over.parts.size() - 1);
  plot.note =
      "What is handed out on the fullest rank, in the order in which blocks come and go. Each forward and backward has "
      "the same "
      "width. Micro batches like the one before are left out. The ring is the peak.";
  plot.heading = fmt::format("{}: {:.1f} MiB at the peak, in {}", over.heading, total(*peak), over.parts[part]);
  for (std::size_t c = 0; c < kCategories; ++c) {
    if (std::all_of(moments.begin(), moments.end(), [&](const Moment& m) { return m.mib[c] == 0; })) continue;
    PlotSeries series;
    series.name = kCategoryNames[c];
    for (const Moment& m : moments) series.points.push_back({m.at, m.mib[c]});
    plot.series.push_back(std::move(series));
  }
  if (!plot.series.empty()) plot.series.back().points[static_cast<std::size_t>(peak - moments.begin())].marked = true;
  return plot;
}

}  // namespace mbench::reports
