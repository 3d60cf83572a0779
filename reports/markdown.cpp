#include "reports/markdown.h"

#include <fmt/format.h>

#include <algorithm>

namespace mbench {
namespace {

// Characters, not bytes: "±" is one column wide.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cell_text(const Cell& cell) {
  std::string out;
  std::size_t start = 0;
  while (start <= cell.text.size()) {
    const std::size_t end = std::min(cell.text.find('\n', start), cell.text.size());
    out += (start ? "<br>" : "") + escape_markdown(std::string_view(cell.text).substr(start, end - start));
    start = end + 1;
  }
  return cell.footnote ? fmt::format("{} [{}]", out, cell.footnote) : out;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

}  // namespace

std::string escape_markdown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '>' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
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
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width_of(line[c]));
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
    out += fmt::format("{} {}\n\n", std::string(static_cast<std::size_t>(level), '#'),
                       escape_markdown(table.title));
    ++level;
  }
  const std::vector<std::string>* before = nullptr;
  for (const Section& section : table.sections) {
    bool differs = before == nullptr;
    for (std::size_t i = 0; i < section.headings.size(); ++i) {
      differs = differs || section.headings[i] != (*before)[i];
      if (differs)
        out += fmt::format("{} {}\n\n",
                           std::string(std::min<std::size_t>(6, static_cast<std::size_t>(level) + i), '#'),
                           escape_markdown(section.headings[i]));
    }
    before = &section.headings;
    out += grid_to_markdown(section) + "\n";
  }
  for (const std::string& note : table.notes) out += escape_markdown(note) + "\n\n";
  return out;
}

}  // namespace mbench
