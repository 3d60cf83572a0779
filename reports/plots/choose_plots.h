// Which plots a page shows: a reader looks at a dozen at most.
#pragma once
#include <cstddef>
#include <vector>

#include "reports/plots/plot.h"

namespace mbench::reports {

inline constexpr std::size_t kMostPlots = 12;

// At most `most` of them, in their order. A plot in which nothing varies says nothing: its values lie within 2 % of each other. Such plots
// go first. Then kinds (plots of one title) take turns, so that every kind has one before any has two, and of a kind those that vary most.
std::vector<Plot> choose_plots(std::vector<Plot> plots, std::size_t most = kMostPlots);

}  // namespace mbench::reports
