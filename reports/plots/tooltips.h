// What a reader of a page sees who points at a point or a bar of a plot: its series and its numbers.
//
// The script of an inline plot (plot_script.h) draws invisible points, whose texts are marks. A mark has the numbers of a series and of its point.
// reports/page/svg_tooltips.h puts the text in their place.
#pragma once
#include <string>

#include "reports/plots/plot.h"

namespace mbench::reports {

// The most points of a plot that get one: beyond it a page would be mostly these.
inline constexpr std::size_t kMostTooltips = 600;
bool has_tooltips(const Plot& plot);

// The mark of a point; of a box one at each end.
std::string tooltip_mark(std::size_t series, std::size_t point, bool end);
// "tp 4: Devices 8, Samples/s 123.4".
std::string tooltip_text(const Plot& plot, std::size_t series, std::size_t point);

}  // namespace mbench::reports
