// What a run's step times look like, in a reviewer's words. Examples: "every 4th step at 3.0x", "25 % of steps at 3.0x", "step 12 at
// 2.1x, once", "from step 12 on +8.0 %", "until step 12 +8.0 %", "rising 0.30 % a step".
#pragma once
#include <string>
#include <vector>

#include "reports/records/slow_steps.h"

namespace mbench::reports {

// Only of the slow steps; empty where there are none. Steps count from 1, over all samples.
std::string slow_pattern(const SlowSteps& slow);
std::string warm_up_pattern(const SlowSteps& slow);

// The pattern of a run: its slow steps, or else the level that changes or rises within it. A level counts if it is beyond doubt and
// changes by 1 % or more. It goes before slow steps that nearly all lie on one side of the change. Empty where the run is level.
// Positive samples.
std::string pattern_of(const std::vector<double>& samples, const SlowSteps& slow);

}  // namespace mbench::reports
