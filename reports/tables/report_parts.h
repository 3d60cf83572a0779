// What a report is made of before a writer gives it a form: the chosen points and the tables.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "reports/records/record.h"
#include "reports/tables/report.h"
#include "reports/tables/table.h"

namespace mbench::reports {

struct ReportParts {
  std::vector<Record> records;        // of every point of the file
  std::vector<const Record*> chosen;  // those that the filters leave, in the file's order
  std::vector<std::string> swept;     // the fields in which they differ
  std::vector<Table> tables;
  std::size_t not_shown = 0;  // chosen points that have no place in the tables
};

ReportParts report_parts(const ResultFile& file, const ReportOptions& options);

// The spec's name.
std::string report_name(const ResultFile& file);

}  // namespace mbench::reports
