// The figures of every point as data of the page, so that its script can put two points side by side.
#pragma once
#include <string>
#include <vector>

#include "reports/records/record.h"

namespace mbench::reports {

// The most points for which a page carries them.
inline constexpr std::size_t kMostPaired = 1000;

// A <script> of JSON: {"names": ["Time (ms)", ...], "points": {ID: ["288 +/- 1", null, ...], ...}}. It has the swept fields first, then
// each metric that any point has. Empty for fewer than two points, and for more than kMostPaired.
std::string html_pairs(const std::vector<const Record*>& points, const std::vector<std::string>& swept,
                       const std::string& prefix);

}  // namespace mbench::reports
