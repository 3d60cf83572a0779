// What a measured step was spent on, as far as it is known: by a result's anatomy, or by a trace. Parts that the source does not
// separate are one group.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/time_part.h"
#include "engine/point/result.h"

namespace mbench::explain {

struct PartGroup {
  std::vector<TimePart> parts;
  double ms = 0;  // of a step
};

struct MeasuredParts {
  std::string source;             // "time_anatomy_ms of the result", "3 steps of trace.json"
  std::vector<PartGroup> groups;  // each part is in one of them
  double step_ms = 0;             // the groups add up to it
};

// "GEMMs", "host + bubble + pp communication"
std::string name_of(const PartGroup& group);
double expected_ms(const PartGroup& group, const TimeAnatomy& expected);

// The parts of a result with an anatomy, each a group of its own.
std::optional<MeasuredParts> parts_of(const PointResult& result);

// How far two anatomies differ over the groups, in ms.
double distance(const MeasuredParts& measured, const TimeAnatomy& expected);

}  // namespace mbench::explain
