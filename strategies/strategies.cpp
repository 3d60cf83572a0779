#include "strategies/strategies.h"

#include "engine/base/error.h"
#include "engine/spec/sizes.h"

namespace mbench::strategies {

// Axes of the mesh and the flow of hidden activations first (data, context, sequence), then what lies on them.
const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> table = {model(),    precision(), graph(),  data(),          context(),
                                              sequence(), tensor(),    expert(), sharded_state(), optimizer(),
                                              pipeline(), recompute(), fp8()};
  return table;
}

Refusal not_built_in(std::string_view what, std::string_view need) {
  return {Outcome::unsupported, fmt::format("{} is not built into this binary, need {}", what, need)};
}

MaybeRefusal why_not(const Point& point) {
  MaybeRefusal unsupported;
  for (const Strategy& s : all_strategies()) {
    if (!s.why_not) continue;
    const MaybeRefusal refusal = s.why_not(point);
    if (refusal && refusal->outcome == Outcome::infeasible) return refusal;
    if (!unsupported) unsupported = refusal;
  }
  return unsupported;
}

Plan make_plan(const Point& point) {
  if (const MaybeRefusal r = why_not(point))
    fail(r->outcome == Outcome::infeasible ? ErrorKind::infeasible : ErrorKind::unsupported, "plan", "{}",
         r->reason);
  check_sizes(point);
  Plan plan;
  for (const Strategy& s : all_strategies())
    if (s.write) s.write(point, plan);
  return plan;
}

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t high) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= n && d <= high; ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

}  // namespace mbench::strategies
