// Tables as CSV (RFC 4180): one header line, headings of sections as leading columns, numbers at full precision. Texts that a
// spreadsheet would take for a formula stand behind an apostrophe, what is unknown is empty. A last column "note" has the reasons of
// failed points. Tables with other columns follow after an empty line.
#pragma once
#include <string>
#include <vector>

#include "reports/tables/table.h"

namespace mbench::reports {

std::string to_csv(const std::vector<Table>& tables);

}  // namespace mbench::reports
