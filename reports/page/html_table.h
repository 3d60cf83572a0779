// Tables inside a page.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/records/record.h"
#include "reports/tables/table.h"

namespace mbench::reports {

// The HTML of one table: a <table> with a caption for each section, its footnotes below. `level`: of its headings. `prefix` starts the
// ids of this file's points, to which rows and cells link.
std::string html_table(const Table& table, int level, const std::string& prefix);

// Every point, one row each: its outcome and reason, its samples' statistics, its losses, and the command that runs it again. `swept`:
// the fields that name it.
std::string html_points(const ResultFile& file, const std::string& path, const std::vector<const Record*>& points,
                        const std::vector<std::string>& swept, const std::string& prefix);

}  // namespace mbench::reports
