#include "explain/parts.h"

#include <cmath>

namespace mbench::explain {

std::string name_of(const PartGroup& group) {
  std::string text;
  for (const TimePart part : group.parts) text += (text.empty() ? "" : " + ") + std::string(mbench::name_of(part));
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
