#include "explain/parts.h"

#include <algorithm>
#include <cmath>

#include "engine/base/printed_part.h"

namespace mbench::explain {

std::string name_of(const PartGroup& group) {
  // A trace that does not name the groups of its collectives has one sum of all communication.
  constexpr int kAxes = kTimeParts - static_cast<int>(TimePart::communication_tp);
  if (group.parts.size() == kAxes && std::all_of(group.parts.begin(), group.parts.end(),
                                                 [](TimePart part) { return part >= TimePart::communication_tp; }))
    return "communication";
  std::string text;
  for (const TimePart part : group.parts) text += (text.empty() ? "" : " + ") + printed_name(part);
  return text;
}

double expected_ms(const PartGroup& group, const TimeAnatomy& expected) {
  double ms = 0;
  for (const TimePart part : group.parts) ms += expected[part];
  return ms;
}

std::optional<MeasuredParts> parts_of(const PointResult& result) {
  if (!result.time_anatomy_ms) return std::nullopt;
  MeasuredParts measured;
  measured.source = "time_anatomy_ms of the result";
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    measured.groups.push_back({{part}, (*result.time_anatomy_ms)[part]});
    measured.step_ms += measured.groups.back().ms;
  }
  return measured;
}

double distance(const MeasuredParts& measured, const TimeAnatomy& expected) {
  double ms = 0;
  for (const PartGroup& group : measured.groups) ms += std::abs(group.ms - expected_ms(group, expected));
  return ms;
}

}  // namespace mbench::explain
