#include "reports/plots/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/base/thinned.h"

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

// The part in which a moment lies.
const std::string& part_at(const MemoryOverStep& over, double at) {
  if (over.begins_ms.empty()) return over.parts[std::min(static_cast<std::size_t>(at), over.parts.size() - 1)];
  const auto next = std::upper_bound(over.begins_ms.begin(), over.begins_ms.end(), at);
  return over.parts[next == over.begins_ms.begin() ? 0 : static_cast<std::size_t>(next - over.begins_ms.begin()) - 1];
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
  const bool in_time = !over.begins_ms.empty();
  if (in_time)
    plot.x_label = "ms";
  else
    plot.rows = over.parts;
  const std::vector<Moment> moments = thinned(over.moments, kMostMoments, total);
  const auto peak = std::max_element(moments.begin(), moments.end(), is_fuller);
  plot.note =
      fmt::format("What is handed out on the fullest rank, {} The ring is the peak.",
                  in_time ? "as the host goes through the simulated step. Within a forward or backward blocks come "
                            "and go evenly. Micro batches like the one before are drawn as that one."
                          : "in the order in which blocks come and go. Each forward and backward has the same "
                            "width. Micro batches like the one before are left out.");
  plot.heading = fmt::format("{}: {:.1f} MiB at the peak, in {}", over.heading, total(*peak), part_at(over, peak->at));
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
