// A comparison as text: markdown made for a pull request (the verdict first, what changed, the rest folded
// away), or JSON with every point and metric.
#pragma once
#include <string>

#include "reports/compare.h"

namespace mbench {

// `format`: md or json, else bad_input.
std::string render_comparison(const Comparison& comparison, const std::string& format);

}  // namespace mbench
