// A result file as text for people (markdown) or programs (csv, json). Names that do not exist are bad_input
// with the nearest choice.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/point/result_fwd.h"

namespace mbench::reports {

struct ReportOptions {
  std::string format = "md";         // md, csv, json
  std::vector<std::string> tables;   // by name; empty: the spec's "tables", else published if it has such
                                     // figures, else strategies if swept, else long
  std::vector<std::string> metrics;  // instead of the tables' own columns, their rows kept
  std::vector<std::string> columns;  // fields and metrics: the whole table is these, one row per point
  std::string sort;                  // FIELD or FIELD:desc
  std::vector<std::string> filters;  // field=value; a field twice: either value
};

// Refuses a spec whose "tables" could not be printed or whose "gates" could not be judged. So such a fault is found before a sweep and
// not after it.
void check_tables(const nlohmann::ordered_json& spec);

// How the points meet the spec's "gates".
struct GateSummary {
  int failed = 0;
  std::string headline;               // empty: there are none
  std::vector<std::string> failures;  // "iteration_ms 29210 is more than 28000 (tp 8)"
};
GateSummary gate_summary(const ResultFile& file);

std::string render_report(const ResultFile& file, const ReportOptions& options);

// Follows the reports of several files: how all of them together compare with the published figures (markdown). Empty unless each has
// published figures.
std::string render_overall(const std::vector<ResultFile>& files, const ReportOptions& options);

}  // namespace mbench::reports
