// Results as one HTML file that needs nothing else: style, script and plots are in it, and it asks no network
// for anything. Its tables can be read, and its commands copied, without the script, which adds sorting and
// the choice of colours.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result_file.h"
#include "reports/page/html_document.h"
#include "reports/plots/plot.h"
#include "reports/tables/report.h"

namespace mbench::reports {

struct HtmlSource {
  std::string path;  // of the result file, as the commands name it
  ResultFile file;
};

struct HtmlReport {
  std::string text;
  std::vector<std::string> notes;  // what is not on the page and why: one line each
};

// `options`: which tables, as for the other formats. `timelines`: plots in addition to those of the results, of traces and of memory over a step.
HtmlReport html_report(const std::vector<HtmlSource>& sources, const ReportOptions& options,
                       const std::vector<Plot>& timelines = {}, const std::string& gnuplot = "gnuplot");

}  // namespace mbench::reports
