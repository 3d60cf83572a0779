// What a step gains from each figure of its machine: the step simulated again with 10 % more of it.
#pragma once
#include <functional>
#include <string>

#include "api/point_simulator.h"

namespace mbench::cli {

// A table in markdown, what matters most first; figures that change nothing are counted. The point is simulated and possible.
// `interrupted` ends it: then the text only says so.
std::string sensitivities(const Point& point, api::PointSimulator& simulator,
                          const std::function<bool()>& interrupted = {});

}  // namespace mbench::cli
