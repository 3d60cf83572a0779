// A rendered table as data: sections of rows x columns. Builders (build_table.h) decide on its content, writers (markdown.h, csv.h,
// json.h) on its look; neither knows the other.
#pragma once
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mbench::reports {

struct Cell {
  std::string text;              // as people read it; lines are separated by '\n'
  std::optional<double> number;  // the value at full precision where the cell holds exactly one
  int footnote = 0;              // 1-based into the section's footnotes; 0: none
  bool is_gap = false;           // the text is an outcome (OOM, crashed) where a number should be
  // Where a column holds several values (Column::values), each of them at full precision.
  std::vector<std::optional<double>> values = {};
  std::string point{};     // id of the point that the cell shows; empty for labels and empty cells
  bool simulated = false;  // that point was
  bool marked = false;  // people are to read "(simulated)" behind the text: of the row, if it is a label or an outcome
};

struct Column {
  std::string header;
  std::string name;                      // of the field or metric, for machines
  bool right = false;                    // numbers align right
  std::vector<std::string> values = {};  // of a column with several numbers in each cell: their names
};

// The names under which programs find the column: those of its values, or its own.
std::vector<std::string> column_names(const Column& column);
// The value of a cell under each of them: a number, a text, or nothing.
using CellValue = std::variant<std::monostate, double, std::string>;
std::vector<CellValue> cell_values(const Column& column, const Cell& cell);

// "true", "false", or "partly": whether what a row shows was simulated.
std::string simulated_word(const std::vector<Cell>& row);

struct Section {
  std::vector<std::string> headings;  // outermost first; a writer prints those that differ from the section before
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as columns
  std::vector<std::string> footnotes;
};

struct Table {
  std::string name;
  std::string title;
  std::vector<Section> sections;
  std::vector<std::string> notes;  // said once below the whole table
};

}  // namespace mbench::reports
