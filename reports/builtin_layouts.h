// The tables and the metrics that mbench knows by name. To add a table shape or give a metric another header,
// edit builtin_layouts.cpp alone; the language is that of layout.h.
#pragma once
#include <string>
#include <vector>

#include "reports/layout.h"

namespace mbench {

const std::vector<Layout>& builtin_layouts();

// How a metric or field is printed unless a layout says otherwise.
struct MetricFormat {
  std::string name;    // as in the result file
  std::string header;  // with its unit
  std::string text;    // grammar of cell_text.h
};
// Null if the name has no entry.
const MetricFormat* find_metric_format(const std::string& name);

}  // namespace mbench
