// How a page names a point.
#pragma once
#include <string>
#include <vector>

#include "reports/records/record.h"

namespace mbench::reports {

// "tp 2, seq 128, full": by the fields in which the points differ (`swept`).
std::string point_label(const Record& record, const std::vector<std::string>& swept);

}  // namespace mbench::reports
