#include "reports/plots/plot_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "engine/base/controls.h"
#include "reports/plots/tooltips.h"

namespace mbench::reports {
namespace {

// Colours with a contrast of at least 3 on white and on the page's dark ground, and a shape each besides.
constexpr std::array kColours = {"#3b78d0", "#c9702a", "#259068", "#bb5283",
                                 "#8268cc", "#84842a", "#2f90a8", "#a8604a"};
// Of boxes alone, which have no shapes: more parts than lines can be told apart, each in a colour of its own.
constexpr std::array kMoreColours = {"#d04a4a", "#5f8f2f", "#777f8a", "#b07a00", "#4f7f7a"};
constexpr std::array kShapes = {7, 5, 9, 13, 11, 15, 4, 8};
constexpr int kWidth = 600, kBroad = 1100;
constexpr std::size_t kMostParts = 12;  // of areas, whose names stand below the axis

struct Range {
  double low = 0, high = 0;
};

Range range_of(const Plot& plot, double PlotPoint::*field) {
  Range range{INFINITY, -INFINITY};
  for (const PlotSeries& series : plot.series)
    for (const PlotPoint& p : series.points) {
      range.low = std::min(range.low, p.*field);
      range.high = std::max(range.high, p.*field);
    }
  return range;
}

std::string colour(std::size_t series) {
  return quoted_for_gnuplot(kColours[series % kColours.size()]);
}

std::string box_colour(std::size_t series) {
  const std::size_t i = series % (kColours.size() + kMoreColours.size());
  return i < kColours.size() ? colour(i) : quoted_for_gnuplot(kMoreColours[i - kColours.size()]);
}

// Beyond as many series as there are colours no two with the same colour have the same shape.
int shape(std::size_t series) {
  return kShapes[(series + series / kColours.size()) % kShapes.size()];
}

bool has_bars(const PlotSeries& series) {
  return std::any_of(series.points.begin(), series.points.end(), [](const PlotPoint& p) { return p.bar.has_value(); });
}

double low_of(const PlotPoint& p) {
  return p.bar ? p.bar->first : p.y;
}
double high_of(const PlotPoint& p) {
  return p.bar ? p.bar->second : p.y;
}

class Script {
 public:
  Script(const Plot& plot, PlotTarget target)
      : plot_(plot),
        target_(target),
        ink_(quoted_for_gnuplot(target == PlotTarget::inline_svg ? kInlineInk : "#222222")),
        grid_(quoted_for_gnuplot(target == PlotTarget::inline_svg ? kInlineGrid : "#d9d9d9")) {}

  std::string write(const std::string& output) {
    add("reset\nset encoding utf8\n");
    terminal();
    if (output.empty())
      add("set output\n");
    else
      add("set output {}\n", quoted_for_gnuplot(output));
    frame();
    data();
    tooltips();
    switch (plot_.shape) {
      case PlotShape::lines:
        axis_of_choices();
        value_axis();
        draw_lines();
        break;
      case PlotShape::samples:
        axis_of_steps();
        draw_samples();
        break;
      case PlotShape::history:
        axis_of_steps();
        value_axis();
        draw_changes();
        draw_lines();
        break;
      case PlotShape::boxes:
        row_axis();
        draw_boxes();
        break;
      case PlotShape::areas:
        part_axis();
        draw_areas();
        break;
    }
    add("set output\n");
    return std::move(text_);
  }

 private:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format(format, std::forward<Args>(args)...);
  }

  int width() const { return plot_.is_broad ? kBroad : kWidth; }

  // Above the graph stand, line by line, the title and the heading (in files; a page has them beside the
  // plot) and the names of the series.
  static constexpr int kLine = 19;

  bool is_titled() const { return target_ != PlotTarget::inline_svg; }

  std::vector<std::string> title_lines() const {
    if (!is_titled()) return {};
    std::vector<std::string> lines = {plot_.title + (plot_.simulated ? " (simulated)" : "")};
    const std::size_t most = static_cast<std::size_t>(width() / 8);
    std::string rest = plot_.heading;
    while (rest.size() > most) {
      const std::size_t space = rest.rfind(' ', most);
      if (space == std::string::npos || space == 0) break;
      lines.push_back(rest.substr(0, space));
      rest.erase(0, space + 1);
    }
    if (!rest.empty()) lines.push_back(rest);
    return lines;
  }

  int key_columns() const {
    std::size_t longest = 1;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) longest = std::max(longest, name_of(i).size());
    return std::clamp((width() - 120) / (60 + 8 * static_cast<int>(longest)), 1, 6);
  }

  int above() const {
    const int keys = (static_cast<int>(plot_.series.size()) + key_columns() - 1) / key_columns();
    return 24 + kLine * (static_cast<int>(title_lines().size()) + keys);
  }

  int height() const {
    const int rows = static_cast<int>(std::max<std::size_t>(plot_.rows.size(), 2));
    return above() + (plot_.shape == PlotShape::boxes ? 60 + 26 * rows : 280);
  }

  void terminal() {
    if (target_ == PlotTarget::png)
      add("set terminal pngcairo size {},{} noenhanced font 'sans,10' fontscale 2 linewidth 2 pointscale 2 "
          "background '#ffffff'\n",
          2 * width(), 2 * height());
    else if (target_ == PlotTarget::pdf)  // a pixel of the others is a point here
      add("set terminal pdfcairo size {:.2f}in,{:.2f}in noenhanced font 'sans,10'\n", width() / 72.0, height() / 72.0);
    else
      add("set terminal svg size {},{} dynamic noenhanced font 'sans-serif,13' linewidth 1{}\n", width(), height(),
          target_ == PlotTarget::svg ? " background '#ffffff'" : "");
  }

  void frame() {
    add("set border 3 lc rgb {}\n", ink_);
    add("set tics nomirror out scale 0.5 textcolor rgb {}\n", ink_);
    add("set grid {} lt 1 lc rgb {} lw 1, lt 1 lc rgb {} lw 1\n", plot_.shape == PlotShape::boxes ? "xtics" : "ytics",
        grid_, grid_);
    const double top = above();
    const std::vector<std::string> titles = title_lines();
    add("set tmargin at screen {:.4f}\nset rmargin 4\n", 1 - top / height());
    add("set key at screen 0.01, screen {:.4f} left top Left reverse horizontal maxcols {} samplen 2 "
        "textcolor rgb {}\n",
        1 - (6.0 + kLine * static_cast<double>(titles.size())) / height(), key_columns(), ink_);
    for (std::size_t i = 0; i < titles.size(); ++i)
      add("set label {} {} at screen 0.015, screen {:.4f} left textcolor rgb {}\n", i + 1,
          quoted_for_gnuplot(titles[i]), 1 - (14.0 + kLine * static_cast<double>(i)) / height(), ink_);
    if (!plot_.x_label.empty()) add("set xlabel {} textcolor rgb {}\n", quoted_for_gnuplot(plot_.x_label), ink_);
    if (!plot_.y_label.empty()) add("set ylabel {} textcolor rgb {}\n", quoted_for_gnuplot(plot_.y_label), ink_);
  }

  // $d0, $d1, ...: one block for each series; $m0, ...: its marked points.
  void data() {
    if (plot_.shape == PlotShape::areas) return stacked_data();
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      add("$d{} << EOD\n", i);
      double before = -INFINITY;
      for (const PlotPoint& p : plot_.series[i].points) {
        const auto& gaps = plot_.series[i].gaps;
        if (std::any_of(gaps.begin(), gaps.end(), [&](double x) { return x > before && x < p.x; }))
          add("\n");  // an empty line ends the line drawn
        before = p.x;
        if (plot_.shape == PlotShape::boxes)
          add("{:.10g} {:.10g} {:.10g} {:.10g} {:.10g} {:.10g}\n", (p.x + p.end) / 2, p.y, p.x, p.end, p.y - 0.36,
              p.y + 0.36);
        else if (has_bars(plot_.series[i]))
          add("{:.10g} {:.10g} {:.10g} {:.10g}\n", p.x, p.y, low_of(p), high_of(p));
        else
          add("{:.10g} {:.10g} {:.10g}\n", p.x, p.y, p.spread);
      }
      add("EOD\n");
      if (!marked(i)) continue;
      add("$m{} << EOD\n", i);
      for (const PlotPoint& p : plot_.series[i].points)
        if (p.marked) add("{:.10g} {:.10g}\n", p.x, p.y);
      add("EOD\n");
    }
  }

  // From the sum of the series before to that with this one. A value holds up to the next.
  void stacked_data() {
    std::vector<double> low(plot_.series.front().points.size(), 0);
    for (std::size_t s = 0; s < plot_.series.size(); ++s) {
      const std::vector<PlotPoint>& points = plot_.series[s].points;
      add("$d{} << EOD\n", s);
      for (std::size_t i = 0; i < points.size(); ++i) {
        const double high = low[i] + points[i].y;
        add("{:.10g} {:.10g} {:.10g}\n", points[i].x, low[i], high);
        if (i + 1 < points.size()) add("{:.10g} {:.10g} {:.10g}\n", points[i + 1].x, low[i], high);
        low[i] = high;
      }
      add("EOD\n");
    }
    const std::vector<PlotPoint>& last = plot_.series.back().points;
    add("$m << EOD\n");
    for (std::size_t i = 0; i < last.size(); ++i)
      if (last[i].marked) add("{:.10g} {:.10g}\n", last[i].x, low[i]);
    add("EOD\n");
  }

  bool marks() const { return target_ == PlotTarget::inline_svg && has_tooltips(plot_); }

  // $t: where a reader may point, with the mark of what lies there (tooltips.h).
  void tooltips() {
    if (!marks()) return;
    add("$t << EOD\n");
    for (std::size_t s = 0; s < plot_.series.size(); ++s)
      for (std::size_t i = 0; i < plot_.series[s].points.size(); ++i) {
        const PlotPoint& p = plot_.series[s].points[i];
        add("{:.10g} {:.10g} \"{}\"\n", p.x, p.y, tooltip_mark(s, i, false));
        if (plot_.shape == PlotShape::boxes) add("{:.10g} {:.10g} \"{}\"\n", p.end, p.y, tooltip_mark(s, i, true));
      }
    add("EOD\n");
  }

  // The one plot command of a script; its parts are what the shapes draw.
  void draw(std::string parts) {
    if (marks()) part(parts, "$t using 1:2:3 with labels hypertext point pt 7 ps 1 lc rgb '#ff010101' notitle");
    add("plot {}\n", parts);
  }

  // As the key has it.
  std::string name_of(std::size_t series) const {
    const std::size_t outliers = marked(series);
    const std::string& name = plot_.series[series].name;
    return outliers ? fmt::format("{}: {} outlier{}", name, outliers, outliers == 1 ? "" : "s") : name;
  }

  std::size_t marked(std::size_t series) const {
    const auto& points = plot_.series[series].points;
    return static_cast<std::size_t>(
        std::count_if(points.begin(), points.end(), [](const PlotPoint& p) { return p.marked; }));
  }

  // Over a wide range in steps of two. What grows in proportion is a straight line if both axes are.
  bool is_log() const {
    const Range x = range_of(plot_, &PlotPoint::x);
    return x.low > 0 && x.high / x.low >= 8;
  }

  const PlotSeries* guide() const {
    const auto found = std::find_if(plot_.series.begin(), plot_.series.end(), [](const auto& s) { return s.is_guide; });
    return found == plot_.series.end() ? nullptr : &*found;
  }

  // Ticks where the guide's first point is doubled and halved.
  void doubling_axis(double origin, const Range& y) {
    std::string ticks;
    double tick = origin;
    while (tick > y.low) tick /= 2;
    for (; tick < 2 * y.high; tick *= 2)
      ticks += fmt::format("{}{} {:.10g}", ticks.empty() ? "" : ", ", tick_label(short_number(tick)), tick);
    add("set logscale y 2\nset ytics ({})\n", ticks);
  }

  static std::string short_number(double x) {
    const char* unit = x >= 999.5e6 ? "G" : x >= 999.5e3 ? "M" : x >= 9999.5 ? "k" : "";
    const double scale = *unit == 'G' ? 1e9 : *unit == 'M' ? 1e6 : *unit == 'k' ? 1e3 : 1;
    return fmt::format("{:.3g}{}", x / scale, unit);
  }

  void axis_of_choices() {
    std::set<double> xs;
    for (const PlotSeries& series : plot_.series)
      for (const PlotPoint& p : series.points) xs.insert(p.x);
    const double low = *xs.begin(), high = *xs.rbegin();
    if (is_log()) {
      add("set logscale x 2\nset xrange [{:.10g}:{:.10g}]\n", low / 1.1, high * 1.1);
    } else {
      const double pad = (high - low) * 0.04;
      add("set xrange [{:.10g}:{:.10g}]\n", low - pad, high + pad);
    }
    if (!plot_.x_is_choice) return;
    std::string ticks;
    for (const double x : xs) ticks += fmt::format("{}{:.10g}", ticks.empty() ? "" : ", ", x);
    add("set xtics ({})\n", ticks);
  }

  void axis_of_steps() {
    const double last = range_of(plot_, &PlotPoint::x).high, pad = std::max(0.5, last * 0.02);
    add("set xrange [{:.10g}:{:.10g}]\nset offsets 0, 0, graph 0.06, graph 0.04\n", 1 - pad, last + pad);
  }

  void value_axis() {
    Range y = range_of(plot_, &PlotPoint::y);
    for (const PlotSeries& series : plot_.series)
      for (const PlotPoint& p : series.points) y = {std::min(y.low, low_of(p)), std::max(y.high, high_of(p))};
    if (guide() && is_log() && y.low > 0) return doubling_axis(guide()->points.front().y, y);
    if (y.low >= 0)
      add("set yrange [0:*]\n");
    else if (y.high <= 0)
      add("set yrange [*:0]\n");
    if (y.low < 0) add("set xzeroaxis lt 1 lc rgb {} lw 1\n", ink_);
    add("set offsets 0, 0, graph 0.05, 0\n");
    if (y.high >= 1e5) add("set format y '%.0f'\n");
  }

  // The names of parts, as many as have room.
  void part_axis() {
    const double end = std::max<double>(static_cast<double>(plot_.rows.size()), range_of(plot_, &PlotPoint::x).high);
    if (plot_.rows.empty()) {  // against time
      add("set xrange [0:{:.10g}]\nset yrange [0:*]\nset offsets 0, 0, graph 0.12, 0\n", end);
      add("set style fill solid 0.85 noborder\n");
      return;
    }
    const std::size_t every = (plot_.rows.size() + kMostParts - 1) / kMostParts;
    std::string labels;
    for (std::size_t i = 0; i < plot_.rows.size(); i += every)
      labels += fmt::format("{}{} {}", labels.empty() ? "" : ", ", tick_label(plot_.rows[i]), i);
    add("set xrange [0:{:.10g}]\nset xtics left ({})\nset yrange [0:*]\nset offsets 0, 0, graph 0.12, 0\n", end,
        labels);
    add("set style fill solid 0.85 noborder\n");
  }

  void row_axis() {
    add("set xrange [0:*]\nset yrange [{}:-0.6]\n", static_cast<double>(plot_.rows.size()) - 0.4);
    std::string labels;
    for (std::size_t row = 0; row < plot_.rows.size(); ++row)
      labels += fmt::format("{}{} {}", row ? ", " : "", tick_label(plot_.rows[row]), row);
    add("set ytics scale 0 ({})\nset style fill solid 1 noborder\n", labels);
  }

  // A tick's label is a format for its number, and gnuplot cuts it off after 50 bytes.
  static std::string tick_label(const std::string& name) {
    constexpr std::size_t most = 46;
    std::size_t end = name.size();
    if (end > most)
      for (end = most; end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80;) --end;
    std::string text;
    for (const char c : name.substr(0, end)) text += c == '%' ? "%%" : std::string(1, c);
    return quoted_for_gnuplot(end < name.size() ? text + "\u2026" : text);
  }

  void draw_changes() {
    for (const double x : plot_.changes)
      add("set arrow from {0:.10g}, graph 0 to {0:.10g}, graph 1 nohead dt 2 lc rgb {1}\n", x, ink_);
  }

  void draw_lines() {
    std::string parts;
    std::size_t colours = 0;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const PlotSeries& series = plot_.series[i];
      const std::string title = quoted_for_gnuplot(series.name);
      if (series.is_guide) {
        part(parts, fmt::format("$d{} using 1:2 with lines dt 2 lw 1 lc rgb {} title {}", i, ink_, title));
        continue;
      }
      const std::size_t c = colours++;
      if (has_bars(series))
        part(parts, fmt::format("$d{} using 1:2:3:4 with yerrorbars pt 0 lw 1 lc rgb {} notitle", i, colour(c)));
      else if (std::any_of(series.points.begin(), series.points.end(), [](const auto& p) { return p.spread > 0; }))
        part(parts, fmt::format("$d{} using 1:2:3 with yerrorbars pt 0 lw 1 lc rgb {} notitle", i, colour(c)));
      part(parts, fmt::format("$d{} using 1:2 with linespoints lw 1.8 pt {} ps 0.6 lc rgb {} title {}", i, shape(c),
                              colour(c), title));
    }
    draw(std::move(parts));
  }

  void draw_samples() {
    std::string parts;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      const std::size_t outliers = marked(i);
      const std::string title = quoted_for_gnuplot(name_of(i));
      part(parts, fmt::format("$d{} using 1:2 with linespoints lw 0.6 pt {} ps 0.4 lc rgb {} title {}", i, shape(i),
                              colour(i), title));
      if (outliers)
        part(parts, fmt::format("$m{} using 1:2 with points pt 6 ps 1.3 lw 1.5 lc rgb {} notitle", i, colour(i)));
    }
    draw(std::move(parts));
  }

  void draw_boxes() {
    std::string parts;
    for (std::size_t i = 0; i < plot_.series.size(); ++i)
      if (!plot_.series[i].points.empty())
        part(parts, fmt::format("$d{} using 1:2:3:4:5:6 with boxxyerror lc rgb {} title {}", i, box_colour(i),
                                quoted_for_gnuplot(plot_.series[i].name)));
    draw(std::move(parts));
  }

  void draw_areas() {
    std::string parts;
    for (std::size_t i = 0; i < plot_.series.size(); ++i)
      part(parts, fmt::format("$d{} using 1:2:3 with filledcurves lc rgb {} title {}", i, box_colour(i),
                              quoted_for_gnuplot(plot_.series[i].name)));
    part(parts, fmt::format("$m using 1:2 with points pt 6 ps 1.3 lw 1.5 lc rgb {} notitle", ink_));
    part(parts, fmt::format("$m using 1:2:(sprintf('peak %.1f', $2)) with labels offset 0,0.8 textcolor rgb {} notitle",
                            ink_));
    draw(std::move(parts));
  }

  static void part(std::string& parts, const std::string& text) { parts += (parts.empty() ? "" : ", ") + text; }

  const Plot& plot_;
  PlotTarget target_;
  std::string ink_, grid_, text_;
};

}  // namespace

std::string quoted_for_gnuplot(std::string_view text) {
  std::string out = "'";
  for (const char c : without_controls(text)) {
    if (c == '\'') out += c;  // doubled
    out += c;
  }
  return out + "'";
}

std::string plot_script(const Plot& plot, PlotTarget target, const std::string& output) {
  return Script(plot, target).write(output);
}

}  // namespace mbench::reports
