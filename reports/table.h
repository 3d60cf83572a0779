// A rendered table as data: sections of rows x columns. Builders (build_table.h) decide what stands in it,
// writers (markdown.h, csv.h, json.h) how it looks; neither knows the other.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace mbench {

struct Cell {
  std::string text;              // as people read it; lines are separated by '\n'
  std::optional<double> number;  // the value at full precision where the cell holds exactly one
  int footnote = 0;              // 1-based into the section's footnotes; 0: none
  bool is_gap = false;           // the text is an outcome (OOM, crashed) where a number should be
  std::string point{};           // id of the point that the cell shows; empty for labels and empty cells
};

struct Column {
  std::string header;
  std::string name;    // of the field or metric, for machines
  bool right = false;  // numbers align right
};

struct Section {
  std::vector<std::string>
      headings;  // outermost first; a writer prints those that differ from the section before
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

}  // namespace mbench
