#include "cli/check_page.h"

#include <fmt/format.h>

#include "cli/html_grid.h"
#include "health/report.h"
#include "reports/page/html_document.h"
#include "reports/page/html_text.h"

namespace mbench::cli {
namespace {

using reports::escape_html;

std::string grid_html(const reports::Section& grid) {
  std::vector<std::string> columns;
  Rows rows;
  for (const reports::Column& c : grid.columns) columns.push_back(c.header);
  for (const std::vector<reports::Cell>& row : grid.rows) {
    std::vector<std::string>& texts = rows.emplace_back();
    for (const reports::Cell& cell : row) texts.push_back(cell.text);
  }
  return html_grid(columns, rows);
}

std::string small(const std::string& text) {
  return "<p class=small>" + escape_html(text) + "</p>\n";
}

// What was found, first.
std::string answer_html(const CheckSource& source) {
  std::string out = "<p><strong>" + escape_html(source.path) + "</strong>: ";
  const auto* check = std::get_if<health::Health>(&source.content);
  if (!check) {
    const auto& fleet = std::get<health::Fleet>(source.content);
    out += escape_html(fmt::format("a fleet of {} node{}.", fleet.nodes.size(), fleet.nodes.size() == 1 ? "" : "s"));
    if (fleet.out.empty()) return out + (fleet.rules.empty() ? "" : " No node falls out.") + "</p>\n";
    out += fmt::format(" <span class=gap>{} fall{} out.</span></p>\n<ul>\n", fleet.out.size(),
                       fleet.out.size() == 1 ? "s" : "");
    for (const health::FallenOut& node : fleet.out)
      for (const std::string& reason : node.reasons) out += "<li>" + escape_html(node.node + ": " + reason) + "</li>\n";
    return out + "</ul>\n";
  }
  const std::vector<std::string> found = health::found_in(*check, source.tolerance);
  if (found.empty()) return out + escape_html(health::nothing_found(*check, source.tolerance)) + "</p>\n";
  out += fmt::format("<span class=gap>{} stand{} out.</span></p>\n<ul>\n",
                     found.size() == 1 ? "one thing" : fmt::format("{} things", found.size()),
                     found.size() == 1 ? "s" : "");
  for (const std::string& line : found) out += "<li>" + escape_html(line) + "</li>\n";
  return out + "</ul>\n";
}

std::string figures_html(const CheckSource& source) {
  std::string out = "<section><h2>" + escape_html(source.path) + "</h2>\n";
  if (const auto* fleet = std::get_if<health::Fleet>(&source.content))
    return out + grid_html(health::grid_of(*fleet)) +
           small(
               "Of each node the worst of its ranks or groups. Cut: values further from the median than 3.5 spreads.") +
           "</section>\n";
  const auto& check = std::get<health::Health>(source.content);
  out += small(fmt::format("{} rank{} ({}){}", check.devices.size(), check.devices.size() == 1 ? "" : "s", check.device,
                           check.date.empty() ? "" : ", " + check.date));
  for (const reports::Section& grid : health::grids_of(check)) out += grid_html(grid);
  return out + small(health::how_to_read_check()) + "</section>\n";
}

}  // namespace

std::string check_page(const std::vector<CheckSource>& sources) {
  std::string body = "<section class=answer>\n";
  for (const CheckSource& source : sources) body += answer_html(source);
  body += "</section>\n";
  for (const CheckSource& source : sources) body += figures_html(source);
  return reports::html_document(sources.size() == 1 ? "Check of a machine" : "Checks of machines", body);
}

}  // namespace mbench::cli
