// What can come of a point, and what follows from it. A new outcome is an enumerator and a line of the table.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mbench {

enum class Outcome { ok, oom, infeasible, unsupported, timeout, crashed, wrong, launch_failed, partial };

struct OutcomeTraits {
  Outcome outcome;
  std::string_view name;  // in result files
  // Whether the program failed. What is no failure is an answer: it stands as it is when a sweep is resumed, it
  // can be a baseline, and the exit code is 0. A failure is run again, and the exit code is 3.
  bool failure;
  std::optional<ErrorKind> raised_by;  // the error that makes its point this
};
const std::vector<OutcomeTraits>& outcomes();

std::string_view name_of(Outcome);
bool is_failure(Outcome);
inline bool is_done(Outcome outcome) {
  return !is_failure(outcome);
}
// What an error makes of its point; nothing for one that is no outcome, such as bad input.
std::optional<Outcome> outcome_of(ErrorKind kind);
// The outcome of that name, or nothing.
std::optional<Outcome> outcome_named(std::string_view name);

}  // namespace mbench
