#include "reports/tables/csv.h"

#include <fmt/format.h>

namespace mbench::reports {
namespace {

std::string quoted(const std::string& text) {
  const bool needed = text.find_first_of(",\"\n\r") != std::string::npos;
  std::string out;
  for (const char c : text) {
    if (c == '"') out += c;  // doubled
    out += c == '\n' || c == '\r' ? ' ' : c;
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
            note +=
                (note.empty() ? "" : "; ") + section.footnotes[static_cast<std::size_t>(cell.footnote) - 1];
        }
        fields.push_back(note);
        out += line_of(fields);
      }
    }
  return out;
}

}  // namespace mbench::reports
