// The plots of a report: those of a result file, and the timeline of a trace.
#pragma once
#include <string>

#include "engine/point/result_fwd.h"
#include "reports/plots/build_plot.h"
#include "reports/plots/timeline.h"
#include "reports/tables/report.h"

namespace mbench::process {
class Interrupt;
}

namespace mbench::reports {

// The plots of the points that the options' filters leave.
BuiltPlots report_plots(const ResultFile& file, const ReportOptions& options);
TimelinePlot read_timeline(const std::string& path);

// The plots of a sweep, drawn into the folder "plots" next to its tables, and the lines of markdown that show them there. At most the
// first hundred. Empty if there are none; `notes` says why something is missing or left out. An interrupt ends the drawing.
std::string plots_next_to(const std::string& folder, const ResultFile& file, std::vector<std::string>& notes,
                          process::Interrupt* interrupt = nullptr);

}  // namespace mbench::reports
