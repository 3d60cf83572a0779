// A comparison as text. It is markdown made for a pull request (the verdict first, what changed, the rest folded away), JSON with every
// point and metric, or JUnit XML.
#pragma once
#include <string>

#include "reports/gate/compare.h"

namespace mbench::reports {

// `format`: md, json or junit, else bad_input.
std::string render_comparison(const Comparison& comparison, const std::string& format);
void check_comparison_format(const std::string& format);

}  // namespace mbench::reports
