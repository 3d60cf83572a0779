// What can come of a point, and what follows from that. A new outcome is an enumerator and a line of the table.
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
  // Whether the program failed. Any other outcome is an answer: a resumed sweep keeps it, it can be a baseline, and the exit code is 0. A
  // failure is run again, and the exit code is 3.
  bool failure;
  std::optional<ErrorKind> raised_by;  // the error that gives a point this outcome
};
const std::vector<OutcomeTraits>& outcomes();

std::string_view name_of(Outcome);
bool is_failure(Outcome);
inline bool is_done(Outcome outcome) {
  return !is_failure(outcome);
}
// The outcome that an error gives its point; nothing for an error that is no outcome, such as bad input.
std::optional<Outcome> outcome_of(ErrorKind kind);
// The outcome of that name, or nothing.
std::optional<Outcome> outcome_named(std::string_view name);

}  // namespace mbench
