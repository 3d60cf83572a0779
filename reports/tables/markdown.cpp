#include "reports/tables/markdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "engine/base/controls.h"
#include "reports/tables/text_width.h"

namespace mbench::reports {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 0x80;
}

// Whether markdown would take the character at `i` for its own. Those that only mean something in pairs or in
// some places are left alone elsewhere, so that the text reads well raw: "samples_per_s". "**" is: reports
// use it.
bool needs_escape(std::string_view text, std::size_t i) {
  const char c = text[i];
  const char before = i > 0 ? text[i - 1] : ' ', after = i + 1 < text.size() ? text[i + 1] : ' ';
  switch (c) {
    case '|':
    case '<':
    case '>':
    case '\\':
      return true;
    case '~':
    case '`':
      return std::count(text.begin(), text.end(), c) > 1 && !(before == ' ' && after == ' ');
    case '_':
      return !(is_word(before) && is_word(after));
    case '&':
      return after == '#' || std::isalpha(static_cast<unsigned char>(after));
    case '[':
      return text.find("](", i) != std::string_view::npos;
    default:
      return false;
  }
}

std::string cell_text(const Cell& cell) {
  std::string out;
  std::size_t start = 0;
  while (start <= cell.text.size()) {
    const std::size_t end = std::min(cell.text.find('\n', start), cell.text.size());
    out += (start ? "<br>" : "") + escape_markdown(std::string_view(cell.text).substr(start, end - start));
    start = end + 1;
  }
  if (cell.marked) out += " (simulated)";
  return cell.footnote ? fmt::format("{} [{}]", out, cell.footnote) : out;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, text_width(text)), ' ');
  return right ? space + text : text + space;
}

}  // namespace

std::string escape_markdown(std::string_view text) {
  std::string out;
  const std::string plain = without_controls(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (needs_escape(plain, i)) out += '\\';
    out += plain[i];
  }
  return out;
}

std::string grid_to_markdown(const Section& section) {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& column : section.columns) lines[0].push_back(escape_markdown(column.header));
  for (const auto& row : section.rows) {
    lines.emplace_back();
    for (const Cell& cell : row) lines.back().push_back(cell_text(cell));
  }
  std::vector<std::size_t> widths(section.columns.size(), 3);
  for (const auto& line : lines)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], text_width(line[c]));
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    for (std::size_t c = 0; c < lines[l].size(); ++c)
      out += (c ? " | " : "| ") + padded(lines[l][c], widths[c], section.columns[c].right);
    out += " |\n";
    if (l > 0) continue;
    for (std::size_t c = 0; c < widths.size(); ++c)
      out += (c ? " | " : "| ") + std::string(widths[c] - 1, '-') + (section.columns[c].right ? ":" : "-");
    out += " |\n";
  }
  if (!section.footnotes.empty()) out += "\n";
  for (std::size_t i = 0; i < section.footnotes.size(); ++i)
    out += fmt::format("- [{}] {}\n", i + 1, escape_markdown(section.footnotes[i]));
  return out;
}

std::string to_markdown(const Table& table, int level) {
  std::string out;
  if (!table.title.empty()) {
    out += fmt::format("{} {}\n\n", std::string(static_cast<std::size_t>(level), '#'), escape_markdown(table.title));
    ++level;
  }
  const std::vector<std::string>* before = nullptr;
  for (const Section& section : table.sections) {
    bool differs = before == nullptr;
    for (std::size_t i = 0; i < section.headings.size(); ++i) {
      differs = differs || section.headings[i] != (*before)[i];
      if (differs)
        out += fmt::format("{} {}\n\n", std::string(std::min<std::size_t>(6, static_cast<std::size_t>(level) + i), '#'),
                           escape_markdown(section.headings[i]));
    }
    before = &section.headings;
    out += grid_to_markdown(section) + "\n";
  }
  for (const std::string& note : table.notes) out += escape_markdown(note) + "\n\n";
  return out;
}

}  // namespace mbench::reports
