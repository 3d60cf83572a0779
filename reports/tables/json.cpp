#include "reports/tables/json.h"

#include <nlohmann/json.hpp>

namespace mbench::reports {

nlohmann::ordered_json to_json(const Table& table) {
  nlohmann::ordered_json out = {{"name", table.name}, {"sections", nlohmann::ordered_json::array()}};
  if (!table.title.empty()) out["title"] = table.title;
  for (const Section& section : table.sections) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& cells : section.rows) {
      nlohmann::ordered_json row = nlohmann::ordered_json::object();
      std::string note;
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const Cell& cell = cells[c];
        const std::vector<std::string> names = column_names(section.columns[c]);
        const std::vector<CellValue> values = cell_values(section.columns[c], cell);
        for (std::size_t i = 0; i < names.size(); ++i) {
          nlohmann::ordered_json& value = row[names[i]];
          if (const auto* number = std::get_if<double>(&values[i])) value = *number;
          if (const auto* text = std::get_if<std::string>(&values[i])) value = *text;
        }
        if (cell.footnote)
          note += (note.empty() ? "" : "; ") + section.footnotes[static_cast<std::size_t>(cell.footnote) - 1];
      }
      const std::string simulated = simulated_word(cells);
      if (!row.contains("simulated"))
        row["simulated"] =
            simulated == "partly" ? nlohmann::ordered_json(simulated) : nlohmann::ordered_json(simulated == "true");
      if (!note.empty()) row["note"] = note;
      rows.push_back(std::move(row));
    }
    out["sections"].push_back({{"headings", section.headings}, {"rows", std::move(rows)}});
  }
  if (!table.notes.empty()) out["notes"] = table.notes;
  return out;
}

}  // namespace mbench::reports
