// The tables and the metrics that mbench knows by name. They are data. reports/tables/declarations/NAME.json is a table, in the
// language of table_declaration.h. reports/tables/metrics.json says how a metric is printed. Adding one needs no C++.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "reports/tables/table_declaration.h"

namespace mbench::reports {

const std::vector<TableDeclaration>& builtin_tables();  // in the order of their names
std::vector<std::string> builtin_names();
// A built-in table as it is declared; null if there is none of that name.
const nlohmann::ordered_json* find_builtin_json(const std::string& name);

// How a metric or field is printed unless a declaration says otherwise.
struct MetricFormat {
  std::string name;    // as in the result file
  std::string header;  // with its unit
  std::string text;    // grammar of cell_text.h
};
// Null if the name has no entry.
const MetricFormat* find_metric_format(const std::string& name);

}  // namespace mbench::reports
