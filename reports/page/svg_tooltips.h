// Tooltips of a plot on a page: <title> elements, which every browser shows without a script.
#pragma once
#include <string>

#include "reports/plots/plot.h"

namespace mbench::reports {

// gnuplot's SVG of an inline plot, with an invisible area and its text (tooltips.h) in place of each mark.
std::string with_tooltips(const std::string& svg, const Plot& plot);

}  // namespace mbench::reports
