#include "reports/tables/table.h"

namespace mbench::reports {

std::vector<std::string> column_names(const Column& column) {
  return column.values.empty() ? std::vector<std::string>{column.name} : column.values;
}

std::vector<CellValue> cell_values(const Column& column, const Cell& cell) {
  std::vector<CellValue> values(column.values.empty() ? 1 : column.values.size());
  if (!cell.values.empty() && !column.values.empty()) {
    for (std::size_t i = 0; i < values.size() && i < cell.values.size(); ++i)
      if (cell.values[i]) values[i] = *cell.values[i];
  } else if (cell.number) {
    values[0] = *cell.number;
  } else if (!cell.text.empty() && cell.text != "n/a" && cell.text != "-") {
    values[0] = cell.text;
  }
  return values;
}

std::string simulated_word(const std::vector<Cell>& row) {
  bool some = false, others = false;
  for (const Cell& cell : row)
    if (!cell.point.empty()) (cell.simulated ? some : others) = true;
  return !some ? "false" : others ? "partly" : "true";
}

}  // namespace mbench::reports
