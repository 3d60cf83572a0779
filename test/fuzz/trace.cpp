// A profiler's trace: the groups of parts add up to the step.
#include "explain/trace.h"

#include <cmath>
#include <sstream>

#include "test/fuzz/target.h"

void mbench::fuzz::read(const std::string& text) {
  std::istringstream in(text);
  const explain::MeasuredParts parts = explain::read_trace(in, "a.json", {});
  double sum = 0;
  for (const explain::PartGroup& group : parts.groups) {
    require(!(group.ms < 0), "no part takes less than nothing");
    sum += group.ms;
  }
  require(!(std::abs(sum - parts.step_ms) > 1e-6 * std::abs(parts.step_ms)), "parts add up to the step");
}
