// From a point to a trainer's config, by the same table. What a row has no value for is gathered, and named when all is written.
#pragma once
#include <string>
#include <vector>

#include "formats/table/row.h"

namespace mbench::formats {

class Writing {
 public:
  // `flat`: a point with all parts of its model (table/flat.h).
  Writing(const Table& table, const ordered_json& flat) : table_(table), flat_(flat) {}

  json at(std::string_view field) const;  // "model.rope.base"; null where there is none
  double number(std::string_view field) const;
  void put(std::string_view key, const json& value);
  void cannot(std::string_view field, const std::string& why = "");

  // Rows, then rules.
  void write();

  const Table& table() const { return table_; }
  const std::vector<std::pair<std::string, json>>& items() const { return items_; }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  const Table& table_;
  const ordered_json& flat_;
  std::vector<std::pair<std::string, json>> items_;  // in the order of the table
  std::vector<std::string> faults_;
};

}  // namespace mbench::formats
