// Tables as JSON: sections of rows. Each row is an object from column name to the value at full precision, or to the text where a cell
// is no single number.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "reports/tables/table.h"

namespace mbench::reports {

nlohmann::ordered_json to_json(const Table& table);

}  // namespace mbench::reports
