// A plot as data: what to draw, but not how. Builders (build_plot.h, timeline.h) make it from results or a trace by a declaration
// (plot_declaration.h), or from a history (baselines/trend.h). plot_script.h writes it for gnuplot.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mbench::reports {

enum class PlotShape {
  lines,    // y over x, a line for each series
  samples,  // y over x, dots; those that are marked get a ring
  history,  // y over the number of an entry, from zero; upright lines where a level changed
  boxes,    // from x to end in row y: stacked bars, timelines
  areas  // y over x, one series on top of the other, in steps; all have the same x. The marked point of the last has the sum at its side
};

struct PlotPoint {
  double x = 0, y = 0;
  double end = 0;       // boxes
  double spread = 0;    // lines: half an error bar; 0: none
  bool marked = false;  // samples: an outlier
  std::optional<std::pair<double, double>> bar =
      {};  // lines: an error bar of unlike halves, from its low to its high end
};

struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
  std::vector<double> gaps{};  // lines: where a point failed; no line is drawn across
  bool is_guide = false;       // no measurement: a dashed line to hold the others against
};

struct Plot {
  std::string name;  // of its files, without extension: lower-case letters, digits and dashes
  PlotShape shape = PlotShape::lines;
  std::string title, heading;  // what is shown, and for which points
  std::string x_label, y_label;
  std::string note;                // how to read it
  std::vector<PlotSeries> series;  // at least one
  std::vector<std::string>
      rows;  // boxes: the name of each row, the first on top; areas: of what lies from x = 0, 1, ... on
  std::vector<double> changes;  // history: where on x a level changed
  bool x_is_choice = false;     // x has few values, which are to be the ticks
  bool is_broad = false;        // a timeline
  bool simulated = false;       // some of it is
};

// Makes a name for files from any text.
std::string plot_slug(std::string_view text);
// Appends -2, -3, ... to names that stand twice.
void make_names_unique(std::vector<Plot>& plots);

}  // namespace mbench::reports
