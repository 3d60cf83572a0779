// Where each point goes in a table: its section, its row's labels and the columns that show it. This is the first half of
// build_table.h; the second, fill, turns places into text.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "reports/records/record.h"
#include "reports/tables/build_table.h"
#include "reports/tables/cell_text.h"
#include "reports/tables/table_declaration.h"

namespace mbench::reports {

struct Place {
  const Record* record = nullptr;
  std::vector<std::string> headings;
  std::vector<std::string> labels;
  std::size_t rank = 0;  // of the row's name in a declaration that names rows
  std::string pivot;
  std::vector<std::size_t> columns;  // indices into the declaration's columns
  std::size_t section = 0;           // places of equal headings have the same
  std::size_t natural = 0;           // where it stands in the table's own order, however rows are sorted
};

struct PlacedRecords {
  TableDeclaration declaration;  // with each "*" written out
  std::vector<Place> places;     // in the order they are to be printed, section by section
  std::set<std::string> axes;    // fields that headings, labels and pivot distinguish
};

// Without a name in `sort`, rows stand in the table's own order: by its named rows, then by its "sort", then as in the file.
PlacedRecords place_records(const TableDeclaration& declaration, const std::vector<const Record*>& records,
                            const std::vector<std::string>& swept, const SortBy& sort, Formatter& formatter);

}  // namespace mbench::reports
