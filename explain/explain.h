// "Is my number expected, and where is the rest?" Compares a measured step with a simulated one. Reports the gap, by part where parts
// were measured, and what could cause it.
#pragma once
#include <string>

#include "engine/sim/machine/machine.h"
#include "explain/peers.h"
#include "explain/suspects.h"

namespace mbench::explain {

// The answer in markdown. `run.expected` has the time of the step.
std::string explain(const Run& run, const RatioInterval& interval, const std::string& measured_where,
                    const Simulate& simulate);

}  // namespace mbench::explain
