#include "engine/point/outcome.h"

#include <algorithm>

namespace mbench {
namespace {

const OutcomeTraits& traits_of(Outcome outcome) {
  for (const OutcomeTraits& traits : outcomes())
    if (traits.outcome == outcome) return traits;
  fail(ErrorKind::internal, "outcome", "value {} is not in the table", static_cast<int>(outcome));
}

}  // namespace

const std::vector<OutcomeTraits>& outcomes() {
  static const std::vector<OutcomeTraits> table = {
      {Outcome::ok, "ok", false, std::nullopt},
      {Outcome::oom, "oom", false, ErrorKind::out_of_memory},
      {Outcome::infeasible, "infeasible", false, ErrorKind::infeasible},
      {Outcome::unsupported, "unsupported", false, ErrorKind::unsupported},
      {Outcome::timeout, "timeout", true, ErrorKind::timed_out},
      {Outcome::crashed, "crashed", true, std::nullopt},
      {Outcome::wrong, "wrong", true, ErrorKind::wrong},
      {Outcome::launch_failed, "launch_failed", true, ErrorKind::launch_failed},
      {Outcome::partial, "partial", true, std::nullopt},
  };
  return table;
}

std::string_view name_of(Outcome outcome) {
  return traits_of(outcome).name;
}

bool is_failure(Outcome outcome) {
  return traits_of(outcome).failure;
}

std::optional<Outcome> outcome_of(ErrorKind kind) {
  for (const OutcomeTraits& traits : outcomes())
    if (traits.raised_by == kind) return traits.outcome;
  return std::nullopt;
}

std::optional<Outcome> outcome_named(std::string_view name) {
  for (const OutcomeTraits& traits : outcomes())
    if (traits.name == name) return traits.outcome;
  return std::nullopt;
}

}  // namespace mbench
