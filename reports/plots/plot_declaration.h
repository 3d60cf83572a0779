// Which plots there are and what each shows, as declarations: one JSON file each in reports/plots/declarations/. Adding a
// plot adds a file there and its golden test. Fields, metrics, texts, "where", "labels" and comparisons are
// those of tables (table_declaration.h).
//
//   "title"     What it shows.
//   "kind"      One of these.
//               lines:    "y" of each "series" over the field "x".
//               samples:  Every element of the array "y" of each "series", over its index.
//               windows:  "y" of every window of a soak over "x" of it, of each "series"; dips are ringed.
//               stacked:  A bar for each "bars", made of the metrics of "parts".
//
//               timeline: Of a trace, not of results. It takes no other key but title, x_label, note and place.
//   "place"     Plots are shown in this order.
//   "sections"  A plot for each of these headings, as in a table. Swept fields that nothing else shows are added.
//
//   "x"         A field with numbers, or a value of a window.
//   "y"         A metric, or {"value", "against", "as"}: a comparison with another point of the section.
//   "scale"     y is multiplied by it (100 for percent).
//   "spread"    A metric: half an error bar (optional, with a plain "y").
//   "series"    The text that labels a line.
//
//   "bars"      The text that labels a bar.
//   "parts"     {"name": metric, ...}, stacked in this order.
//   "ideal"     true: a dashed line of y proportional to x, from the first point of the first series.
//
//   "x_label", "y_label", "note", "where", "labels"
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/tables/table_declaration.h"

namespace mbench::reports {

enum class PlotKind { lines, samples, windows, stacked, timeline };

struct PlotDeclaration {
  std::string name;
  PlotKind kind = PlotKind::lines;
  double place = 0;
  std::string title, x_label, y_label, note;
  std::string x;       // lines, windows
  std::string metric;  // the plain y
  std::string spread;
  double scale = 1;
  bool ideal = false;
  std::vector<std::string> parts;  // stacked: the metric of each column of the table
  TableDeclaration table;          // its sections are the plots; nothing for a timeline
};

PlotDeclaration plot_from_json(const std::string& name, const nlohmann::ordered_json& json, const std::string& where);

// The declarations of reports/plots/declarations/, by place.
const std::vector<PlotDeclaration>& plot_declarations();

}  // namespace mbench::reports
