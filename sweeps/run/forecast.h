// What is known of a point before it starts.
#pragma once
#include <optional>
#include <string>

#include "engine/point/outcome.h"

namespace mbench::sweeps {

struct Forecast {
  std::optional<Outcome> outcome;  // infeasible, unsupported or oom: it is recorded, not started
  std::string reason;              // why, where outcome is set
  std::optional<double> seconds;   // how long it will about take, its start and warm-up in
};

}  // namespace mbench::sweeps
