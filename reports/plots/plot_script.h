// A plot as a gnuplot script; nothing else writes one. Names are single-quoted strings, in which gnuplot expands nothing. Numbers are
// data blocks.
#pragma once
#include <string>

#include "reports/plots/plot.h"

namespace mbench::reports {

enum class PlotTarget {
  svg,         // a file of its own: dark on white
  inline_svg,  // into a page, whose style sheet colours what has the colours kInk and kGrid
  png,         // a file, at twice the size in pixels
  pdf          // a file
};

inline constexpr const char* kInlineInk = "#010101";
inline constexpr const char* kInlineGrid = "#020202";

// Draws to the file `output`, or to standard output if it is empty.
std::string plot_script(const Plot& plot, PlotTarget target, const std::string& output);

// A text as a gnuplot string.
std::string quoted_for_gnuplot(std::string_view text);

}  // namespace mbench::reports
