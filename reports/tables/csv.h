// Tables as CSV (RFC 4180): one header line, headings of sections as leading columns, numbers at full
// precision, texts that a spreadsheet would take for a formula behind an apostrophe, what is unknown empty, reasons of failed points in a last column "note". Tables with other
// columns follow after an empty line.
#pragma once
#include <string>
#include <vector>

#include "reports/tables/table.h"

namespace mbench::reports {

std::string to_csv(const std::vector<Table>& tables);

}  // namespace mbench::reports
