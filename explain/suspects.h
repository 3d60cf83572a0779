// What could cause the gap between a measured and an expected step, most likely first. First come causes that the run's own figures
// show. Then come changes of the spec or the machine that are simulated and compared with the measurement. Last come those that only
// another measurement can show. Changes are data (changes.json).
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "explain/parts.h"

namespace mbench::explain {

// Nothing where the point is impossible on the machine.
using Simulate = std::function<std::optional<PointResult>(const Point&)>;

struct Run {
  const PointResult& measured;
  const PointResult& expected;  // its point is the simulated one
  std::optional<MeasuredParts> parts;
  int devices_of_node = 1;

  double gap_ms() const { return measured.iteration_ms->mean - expected.iteration_ms->mean; }
};

inline constexpr std::size_t kFewSamples = 8;  // in which no stall is looked for
inline constexpr double kOtherMemory = 0.03;   // of the peak: what a forecast of memory is not off by

struct Suspect {
  enum class By { figures, simulation, nothing } by = By::nothing;  // what it is known by
  std::string what;
  std::optional<double> ms;  // of the gap that it would hold; of a simulated change also more than all of it
  std::string shown;         // in a clause: "by the samples", "a step would take 13.8 s"
  std::string confirm;       // what would confirm it
  double unlikely = 0;  // within its kind: how far from the measured step it leaves the simulated one, 0 to 1 and above
};

std::vector<Suspect> suspects_of(const Run& run, const Simulate& simulate);

// Each kind; suspects_of() joins them.
std::vector<Suspect> shown_by_figures(const Run& run);
std::vector<Suspect> shown_by_simulation(const Run& run, const Simulate& simulate);
std::vector<Suspect> not_shown(const Run& run);

// Whether the condition of a row of changes.json holds for the run.
bool holds(const std::string& condition, const Run& run);

}  // namespace mbench::explain
