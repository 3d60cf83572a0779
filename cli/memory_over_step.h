// The plots of mbench report --memory-timeline: what the fullest rank of a point holds over a step.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"
#include "reports/plots/plot.h"
#include "reports/tables/report.h"

namespace mbench::cli {

// Of the points of a result that the options' filters leave, the first few. `notes`: which are left out, and why.
std::vector<reports::Plot> memory_timelines(const ResultFile& file, const reports::ReportOptions& options,
                                            std::vector<std::string>& notes);

}  // namespace mbench::cli
