#include "reports/tables/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/base/controls.h"

namespace mbench::reports {
namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() && error != std::errc::invalid_argument;
}

// Whether a spreadsheet would take the text for a formula, which may start programs.
bool is_formula(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first != std::string_view::npos && std::string_view("=+-@").find(text[first]) != std::string_view::npos &&
         first + 1 < text.size() && !is_number(text);
}

// A formula gets an apostrophe, by which spreadsheets take it for text.
std::string quoted(const std::string& text) {
  const bool needed = text.find_first_of(",\"\n\r") != std::string::npos;
  const std::string plain = without_controls(text);
  std::string out = is_formula(plain) ? "'" : "";
  for (const char c : plain) {
    if (c == '"') out += c;  // doubled
    out += c;
  }
  return needed ? fmt::format("\"{}\"", out) : out;
}

std::string line_of(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i) line += ',';
    line += quoted(fields[i]);
  }
  return line + "\n";
}

}  // namespace

std::string to_csv(const std::vector<Table>& tables) {
  std::string out, header_before;
  for (const Table& table : tables)
    for (const Section& section : table.sections) {
      std::vector<std::string> header;
      for (std::size_t i = 0; i < section.headings.size(); ++i)
        header.push_back(i == 0 ? "section" : fmt::format("section{}", i + 1));
      for (const Column& column : section.columns)
        for (std::string& name : column_names(column)) header.push_back(std::move(name));
      const bool has_column =
          std::find(header.begin(), header.end(), "simulated") != header.end();  // asked for by name
      if (!has_column) header.push_back("simulated");
      header.push_back("note");
      const std::string header_line = line_of(header);
      if (header_line != header_before) out += (out.empty() ? "" : "\n") + header_line;
      header_before = header_line;
      for (const auto& row : section.rows) {
        std::vector<std::string> fields = section.headings;
        std::string note;
        for (std::size_t c = 0; c < row.size(); ++c) {
          const Cell& cell = row[c];
          for (const CellValue& value : cell_values(section.columns[c], cell)) {
            const double* number = std::get_if<double>(&value);
            const std::string* text = std::get_if<std::string>(&value);
            fields.push_back(number ? fmt::format("{}", *number) : text ? *text : "");
          }
          if (cell.footnote)
            note += (note.empty() ? "" : "; ") + section.footnotes[static_cast<std::size_t>(cell.footnote) - 1];
        }
        if (!has_column) fields.push_back(simulated_word(row));
        fields.push_back(note);
        out += line_of(fields);
      }
    }
  return out;
}

}  // namespace mbench::reports
