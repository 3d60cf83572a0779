// What bounds a step, from its time anatomy, and what would help: one sentence.
#pragma once
#include <optional>
#include <string>

#include "engine/point/result_fwd.h"

namespace mbench::reports {

// Shares of the mean step: ops of the device, exposed communication, waiting for a neighbouring stage, waiting for the host.
struct TimeShares {
  double compute = 0, communication = 0, bubble = 0, host = 0;
};
std::optional<TimeShares> time_shares(const PointResult& result);

// "GEMMs 61 %; tp communication 24 %: TP 16 spans 2 nodes, a tp of 8 stays within one". These are the largest part, and the largest
// that a layout could avoid, with what would reduce it. `devices_per_node`: 0 where it is not known. Empty where the time anatomy is.
std::string bound_by(const PointResult& result, int devices_per_node);

}  // namespace mbench::reports
