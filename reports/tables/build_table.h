// From a declaration and the points' records to a table of text. Every point that the declaration's rows and columns can hold is in it
// exactly once. Points that would fall into one cell get further headings, or else a row each. An outcome other than ok is a cell (OOM,
// crashed, ...) with its reason as a footnote. Null is "n/a"; "-" means that there is nothing to say; a simulated row says so.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "reports/records/record.h"
#include "reports/tables/table.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {

struct BuiltTable {
  Table table;
  std::set<const Record*> shown;
};

// `swept`: the fields in which the points differ (swept_fields). Rows are sorted within their section, by `sort` if it names something.
// Comparisons do not depend on that order.
BuiltTable build_table(const TableDeclaration& declaration, const std::vector<const Record*>& records,
                       const std::vector<std::string>& swept, const SortBy& sort);

}  // namespace mbench::reports
