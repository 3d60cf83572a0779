#include "reports/plots/build_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/point/outcome.h"
#include "reports/records/outliers.h"
#include "reports/tables/build_table.h"

namespace mbench::reports {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLines = 12;  // more cannot be told apart
constexpr std::size_t kMostBars = 40;   // more cannot be read
// Of a series: gnuplot takes seconds for more, and a picture is some hundreds of dots wide.
constexpr std::size_t kMostSamples = 20000;

std::optional<double> number_of(const Record& record, const std::string& name) {
  const Json value = record.value(name);
  if (!value.is_number()) return std::nullopt;
  const double number = value.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

class SectionPlot {
 public:
  SectionPlot(const PlotDeclaration& declaration, const Section& section,
              const std::map<std::string, const Record*>& by_id)
      : declaration_(declaration), section_(section), by_id_(by_id) {
    plot_.title = declaration.title;
    for (const std::string& heading : section.headings) plot_.heading += (plot_.heading.empty() ? "" : ", ") + heading;
    plot_.name = plot_slug(declaration.name + (plot_.heading.empty() ? "" : "-" + plot_.heading));
    plot_.x_label = declaration.x_label;
    plot_.y_label = declaration.y_label;
    plot_.note = declaration.note;
  }

  // Nothing where there is too little to show; `excess` says what there is too much of.
  std::optional<Plot> build(std::string& excess) {
    for (const auto& row : section_.rows) add_row(row);
    std::erase_if(plot_.series, [](const PlotSeries& s) { return s.points.empty(); });
    if (plot_.series.empty()) return std::nullopt;
    const std::size_t many = declaration_.kind == PlotKind::stacked ? plot_.rows.size() : plot_.series.size();
    const std::size_t most = declaration_.kind == PlotKind::stacked ? kMostBars : kMostLines;
    if (many > most) {
      excess = fmt::format("{} {}, more than the {} that can be distinguished", many,
                           declaration_.kind == PlotKind::stacked ? "bars" : "lines", most);
      return std::nullopt;
    }
    if (declaration_.kind == PlotKind::lines && !finish_lines()) return std::nullopt;
    return std::move(plot_);
  }

 private:
  PlotSeries& series(const std::string& name) {
    const auto found =
        std::find_if(plot_.series.begin(), plot_.series.end(), [&](const PlotSeries& s) { return s.name == name; });
    if (found != plot_.series.end()) return *found;
    plot_.series.push_back({name, {}, {}, false});
    return plot_.series.back();
  }

  void add_row(const std::vector<Cell>& row) {
    switch (declaration_.kind) {
      case PlotKind::lines:
        plot_.shape = PlotShape::lines;
        for (std::size_t c = 1; c < row.size(); ++c) add_to_line(row[c], section_.columns[c].header);
        return;
      case PlotKind::samples:
        plot_.shape = PlotShape::samples;
        add_samples(row);
        return;
      case PlotKind::windows:
        plot_.shape = PlotShape::samples;
        add_windows(row);
        return;
      case PlotKind::stacked:
        plot_.shape = PlotShape::boxes;
        add_bar(row);
        return;
      case PlotKind::timeline:
        return;
    }
  }

  const Record* record_of(const Cell& cell) const {
    const auto found = by_id_.find(cell.point);
    return found == by_id_.end() || found->second->outcome() != Outcome::ok ? nullptr : found->second;
  }

  void add_to_line(const Cell& cell, const std::string& name) {
    PlotSeries& line = series(name);  // in the order of the table, with or without points
    const auto found = by_id_.find(cell.point);
    if (found == by_id_.end()) return;
    const Record* record = found->second;
    const auto x = number_of(*record, declaration_.x);
    if (x && record->outcome() != Outcome::ok) line.gaps.push_back(*x);
    if (record->outcome() != Outcome::ok) return;
    const auto y = declaration_.metric.empty() ? cell.number : number_of(*record, declaration_.metric);
    if (!x || !y || !std::isfinite(*y)) return;
    PlotPoint point{*x, *y * declaration_.scale};
    if (!declaration_.spread.empty())
      point.spread = number_of(*record, declaration_.spread).value_or(0) * declaration_.scale;
    if (declaration_.metric.empty() && cell.values.size() == 3 && cell.values[1] && cell.values[2])  // its interval
      point.bar = {*cell.values[1] * declaration_.scale, *cell.values[2] * declaration_.scale};
    line.points.push_back(point);
    plot_.simulated = plot_.simulated || record->simulated();
  }

  void add_samples(const std::vector<Cell>& row) {
    const Record* record = record_of(row.back());
    if (!record) return;
    PlotSeries line{row.front().text, {}, {}, false};
    std::vector<double> samples;
    double x = 0;
    for (const double value : record->samples_ms()) {
      ++x;
      if (!std::isfinite(value)) continue;
      samples.push_back(value * declaration_.scale);
      line.points.push_back({x, samples.back()});
    }
    const auto outliers = outliers_of(samples);
    if (!outliers) return;
    for (std::size_t i = 0; i < samples.size(); ++i) line.points[i].marked = (*outliers)[i];
    if (line.points.size() > kMostSamples) {
      const std::size_t together = thin(line.points);
      const std::string said = fmt::format("Of {} steps in a row the shortest and the longest are drawn.", together);
      if (plot_.note.find(said) == std::string::npos) plot_.note += (plot_.note.empty() ? "" : " ") + said;
    }
    plot_.series.push_back(std::move(line));
    plot_.simulated = plot_.simulated || record->simulated();
  }

  // Keeps of so many points in a row the lowest and the highest, in their order; of how many.
  static std::size_t thin(std::vector<PlotPoint>& points) {
    const std::size_t together = (2 * points.size() + kMostSamples - 1) / kMostSamples;
    std::vector<PlotPoint> kept;
    for (std::size_t begin = 0; begin < points.size(); begin += together) {
      const auto from = points.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto to = points.begin() + static_cast<std::ptrdiff_t>(std::min(begin + together, points.size()));
      auto [low, high] =
          std::minmax_element(from, to, [](const PlotPoint& a, const PlotPoint& b) { return a.y < b.y; });
      if (high < low) std::swap(low, high);
      kept.push_back(*low);
      if (high != low) kept.push_back(*high);
    }
    points = std::move(kept);
    return together;
  }

  void add_windows(const std::vector<Cell>& row) {
    const Record* record = record_of(row.back());
    if (!record) return;
    PlotSeries line{row.front().text, {}, {}, false};
    for (const Record& window : record->by_window()) {
      const auto x = number_of(window, declaration_.x), y = number_of(window, declaration_.metric);
      if (x && y) line.points.push_back({*x, *y * declaration_.scale, 0, 0, window.value("window.dip") == true});
    }
    plot_.series.push_back(std::move(line));
  }

  void add_bar(const std::vector<Cell>& row) {
    const Record* record = record_of(row.back());
    if (!record) return;
    const double y = static_cast<double>(plot_.rows.size());
    double from = 0;
    for (std::size_t part = 0; part < declaration_.parts.size(); ++part) {
      const double size = number_of(*record, declaration_.parts[part]).value_or(0) * declaration_.scale;
      PlotSeries& parts = series(section_.columns[part + 1].header);
      if (size > 0) parts.points.push_back({from, y, from + size});
      from += std::max(size, 0.0);
    }
    if (from == 0) return;  // unknown for this point
    plot_.rows.push_back(row.front().text);
    plot_.simulated = plot_.simulated || record->simulated();
  }

  bool finish_lines() {
    std::set<double> xs;
    for (PlotSeries& line : plot_.series) {
      std::stable_sort(line.points.begin(), line.points.end(),
                       [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; });
      for (const PlotPoint& p : line.points) xs.insert(p.x);
    }
    if (xs.size() < 2) return false;
    plot_.x_is_choice = xs.size() <= 10;
    const PlotPoint origin = plot_.series.front().points.front();
    if (declaration_.ideal && origin.x > 0 && origin.y > 0 && *xs.rbegin() > origin.x) {
      PlotSeries ideal{"In proportion", {}, {}, true};
      for (const double x : {origin.x, *xs.rbegin()}) ideal.points.push_back({x, origin.y * x / origin.x});
      plot_.series.push_back(std::move(ideal));
    }
    return true;
  }

  const PlotDeclaration& declaration_;
  const Section& section_;
  const std::map<std::string, const Record*>& by_id_;
  Plot plot_;
};

}  // namespace

BuiltPlots build_plots(const std::vector<PlotDeclaration>& declarations, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept) {
  std::map<std::string, const Record*> by_id;
  for (const Record* record : records) by_id[record->id()] = record;
  BuiltPlots built;
  for (const PlotDeclaration& declaration : declarations) {
    if (declaration.kind == PlotKind::timeline || records.empty()) continue;
    BuiltTable table = build_table(declaration.table, records, swept, {});
    std::string first;
    std::size_t crowded = 0;
    for (Section& section : table.table.sections) {
      std::string excess;
      if (auto plot = SectionPlot(declaration, section, by_id).build(excess))
        built.plots.push_back(std::move(*plot));
      else if (!excess.empty() && crowded++ == 0)
        first = excess;
    }
    if (crowded > 0)
      built.notes.push_back(fmt::format("\"{}\" is not drawn {} of {} times: {}; --filter leaves fewer.",
                                        declaration.title, crowded, table.table.sections.size(), first));
  }
  make_names_unique(built.plots);
  return built;
}

}  // namespace mbench::reports
