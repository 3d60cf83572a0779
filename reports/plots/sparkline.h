// A line drawn of text.
#pragma once
#include <string>
#include <vector>

namespace mbench::reports {

// Eight heights between the least and the largest value: "▁▁▂▁▇█▇".
std::string sparkline(const std::vector<double>& values);

}  // namespace mbench::reports
