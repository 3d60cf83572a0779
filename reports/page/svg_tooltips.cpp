#include "reports/page/svg_tooltips.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "reports/page/html_text.h"
#include "reports/plots/tooltips.h"

namespace mbench::reports {
namespace {

constexpr double kReach = 9;         // pixels around a point, in the units of the plot's viewBox
constexpr double kHalfHeight = 9.5;  // of a bar: plot_script.h draws rows of 26 pixels, 0.72 of which a bar takes

// Where gnuplot has put a mark, and which.
struct Mark {
  std::size_t series = 0, point = 0;
  bool end = false;
  double x = 0, y = 0;
};

// Of a line such as: <g onmousemove="...(evt,'tip 0 3 1')" ...>, and the next: <use ... transform='translate(59.15,261.00) ...'/></g>
bool read_mark(std::string_view first, std::string_view second, Mark& mark) {
  const std::size_t text = first.find("'tip "), place = second.find("translate(");
  if (text == std::string_view::npos || place == std::string_view::npos) return false;
  int end = 0;
  const bool read =
      std::sscanf(std::string(first.substr(text)).c_str(), "'tip %zu %zu %d'", &mark.series, &mark.point, &end) == 3 &&
      std::sscanf(std::string(second.substr(place)).c_str(), "translate(%lf,%lf)", &mark.x, &mark.y) == 2;
  mark.end = end != 0;
  return read;
}

std::string area(const Plot& plot, const Mark& from, const Mark& to) {
  const std::string title = escape_html(tooltip_text(plot, from.series, from.point));
  if (plot.shape == PlotShape::boxes)
    return fmt::format(
        "<rect class=\"tip\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{}\"><title>{}</title></rect>\n",
        from.x, from.y - kHalfHeight, std::max(1.0, to.x - from.x), 2 * kHalfHeight, title);
  return fmt::format("<circle class=\"tip\" cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{}\"><title>{}</title></circle>\n", from.x,
                     from.y, kReach, title);
}

}  // namespace

std::string with_tooltips(const std::string& svg, const Plot& plot) {
  std::string out, areas;
  std::vector<Mark> begun;  // boxes of which the left end was seen
  std::string_view rest = svg;
  const auto line = [&] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return text;
  };
  while (!rest.empty()) {
    const std::string_view first = line();
    if (first.find("onmousemove=") == std::string_view::npos) {
      if (first.starts_with("</svg>")) out += areas;  // over all that is drawn
      out += std::string(first) + "\n";
      continue;
    }
    Mark mark;
    if (!read_mark(first, line(), mark)) continue;
    if (plot.shape != PlotShape::boxes)
      areas += area(plot, mark, mark);
    else if (!mark.end)
      begun.push_back(mark);
    else if (const auto it =
                 std::find_if(begun.begin(), begun.end(),
                              [&](const Mark& m) { return m.series == mark.series && m.point == mark.point; });
             it != begun.end())
      areas += area(plot, *it, mark);
  }
  return out;
}

}  // namespace mbench::reports
