#include "reports/page/html_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "reports/page/html_text.h"

namespace mbench::reports {
namespace {

// A cell's text, its lines and spread as a page shows them, and the mark of a simulation.
std::string cell_html(const Cell& cell) {
  std::string out = escape_html(cell.text);
  for (std::size_t at = 0; (at = out.find(" +/- ", at)) != std::string::npos;) out.replace(at, 5, " \u00B1 ");
  for (std::size_t at = 0; (at = out.find('\n', at)) != std::string::npos;) out.replace(at, 1, "<br>");
  return cell.marked ? out + " <span class=sim>simulated</span>" : out;
}

// The point that a row is about; empty if it shows none, or several.
std::string only_point(const std::vector<Cell>& row) {
  std::string only;
  for (const Cell& cell : row) {
    if (cell.point.empty() || cell.point == only) continue;
    if (!only.empty()) return "";
    only = cell.point;
  }
  return only;
}

std::string link_to(const std::string& point, const std::string& prefix, const std::string& inside) {
  return fmt::format("<a href=\"#{}{}\">{}</a>", prefix, escape_html(point), inside);
}

std::string footnote_id(const std::string& prefix, const Table& table, std::size_t section, std::size_t n) {
  return fmt::format("{}note-{}-{}-{}", prefix, escape_html(table.name), section + 1, n);
}

class TableWriter {
 public:
  TableWriter(const Table& table, const std::string& prefix) : table_(table), prefix_(prefix) {}

  void section(std::string& out, std::size_t index, const std::string& caption) const {
    const Section& section = table_.sections[index];
    // Of all its headings, so that no two regions have one name.
    std::string name;
    for (const std::string& heading : section.headings) name += (name.empty() ? "" : ", ") + heading;
    out += fmt::format(
        "<div class=wide tabindex=0 role=region aria-label=\"{}\"><table class=sorts>"
        "<caption>{}</caption>\n<thead><tr>",
        escape_html(name.empty() ? caption : name), escape_html(caption));
    for (const Column& column : section.columns)
      out += fmt::format("<th scope=col{}>{}</th>", column.right ? " class=r" : "", escape_html(column.header));
    out += "</tr></thead>\n<tbody>\n";
    for (const auto& row : section.rows) write_row(out, section, row, index);
    out += "</tbody></table></div>\n";
    if (section.footnotes.empty()) return;
    out += "<ol class=notes>\n";
    for (std::size_t i = 0; i < section.footnotes.size(); ++i)
      out += fmt::format("<li id=\"{}\">{}</li>\n", footnote_id(prefix_, table_, index, i + 1),
                         escape_html(section.footnotes[i]));
    out += "</ol>\n";
  }

 private:
  void write_row(std::string& out, const Section& section, const std::vector<Cell>& row, std::size_t index) const {
    const std::string point = only_point(row);
    out += "<tr>";
    for (std::size_t c = 0; c < row.size(); ++c) {
      const Cell& cell = row[c];
      std::string inside = cell_html(cell);
      if (c == 0 && !point.empty()) inside = link_to(point, prefix_, inside);
      if (c > 0 && point.empty() && !cell.point.empty()) inside = link_to(cell.point, prefix_, inside);
      if (cell.footnote)
        inside +=
            fmt::format("<sup><a href=\"#{}\">{}</a></sup>",
                        footnote_id(prefix_, table_, index, static_cast<std::size_t>(cell.footnote)), cell.footnote);
      std::string kind = section.columns[c].right ? "r" : "";
      if (cell.is_gap) kind += kind.empty() ? "gap" : " gap";
      if (kind.find(' ') != std::string::npos) kind = '"' + kind + '"';
      const std::string style = kind.empty() ? "" : " class=" + kind;
      out +=
          c == 0 ? fmt::format("<th scope=row{}>{}</th>", style, inside) : fmt::format("<td{}>{}</td>", style, inside);
    }
    out += "</tr>\n";
  }

  const Table& table_;
  const std::string& prefix_;
};

}  // namespace

std::string html_table(const Table& table, int level, const std::string& prefix) {
  std::string out;
  if (!table.title.empty()) {
    out += fmt::format("<h{0}>{1}</h{0}>\n", level, escape_html(table.title));
    ++level;
  }
  const TableWriter writer(table, prefix);
  const std::vector<std::string>* before = nullptr;
  for (std::size_t i = 0; i < table.sections.size(); ++i) {
    const std::vector<std::string>& headings = table.sections[i].headings;
    bool differs = before == nullptr;
    for (std::size_t h = 0; h + 1 < headings.size(); ++h) {  // the innermost is the caption
      differs = differs || headings[h] != (*before)[h];
      if (differs)
        out += fmt::format("<h{0}>{1}</h{0}>\n", std::min(6, level + static_cast<int>(h)), escape_html(headings[h]));
    }
    before = &headings;
    writer.section(out, i,
                   !headings.empty()      ? headings.back()
                   : !table.title.empty() ? table.title
                                          : "Table \u201C" + table.name + "\u201D");
  }
  for (const std::string& note : table.notes) out += "<p class=small>" + escape_html(note) + "</p>\n";
  return out;
}

}  // namespace mbench::reports
