#include "reports/json.h"

namespace mbench {

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
        nlohmann::ordered_json& value = row[section.columns[c].name];
        if (cell.number)
          value = *cell.number;
        else if (cell.text != "n/a" && cell.text != "-" && !cell.text.empty())
          value = cell.text;
        if (cell.footnote)
          note += (note.empty() ? "" : "; ") + section.footnotes[static_cast<std::size_t>(cell.footnote) - 1];
      }
      if (!note.empty()) row["note"] = note;
      rows.push_back(std::move(row));
    }
    out["sections"].push_back({{"headings", section.headings}, {"rows", std::move(rows)}});
  }
  if (!table.notes.empty()) out["notes"] = table.notes;
  return out;
}

}  // namespace mbench
