#include "strategies/strategies.h"

#include <algorithm>
#include <utility>

#include "engine/base/error.h"
#include "engine/point/sizes.h"
#include "strategies/advice.h"

namespace mbench::strategies {

// Axes of the mesh and the flow of hidden activations first (data, context, sequence), then what lies on them.
const std::vector<Strategy>& all_strategies() {
  static const std::vector<Strategy> table = {
      model(),       precision(),          graph(),   data(),      context(),  sequence(),       tensor(),
      expert(),      sharded_state(),      adapter(), optimizer(), pipeline(), expert_overlap(), recompute(),
      expert_room(), activation_offload(), fp8()};
  return table;
}

MaybeFault first_fault(const Point& point) {
  MaybeFault unsupported;
  for (const Strategy& s : all_strategies()) {
    if (!s.why_not) continue;
    MaybeFault fault = s.why_not(point);
    if (fault && fault->outcome == Outcome::infeasible) return fault;
    if (!unsupported) unsupported = std::move(fault);
  }
  return unsupported;
}

bool can_be(const Point& point) {
  return std::ranges::none_of(all_strategies(), [&](const Strategy& s) { return s.why_not && s.why_not(point); });
}

MaybeRefusal why_not(const Point& point) {
  const MaybeFault fault = first_fault(point);
  if (!fault) return std::nullopt;
  return Refusal{fault->outcome, explain(point, *fault)};
}

Plan make_plan(const Point& point) {
  if (const MaybeRefusal r = why_not(point))
    fail(r->outcome == Outcome::infeasible ? ErrorKind::infeasible : ErrorKind::unsupported, "plan", "{}", r->reason);
  check_sizes(point);
  Plan plan;
  for (const Strategy& s : all_strategies())
    if (s.write) s.write(point, plan);
  return plan;
}

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t high) {
  // Each below the root of n has another above it.
  std::vector<std::int64_t> all, above;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    if (d <= high) all.push_back(d);
    if (d * d != n && n / d <= high) above.push_back(n / d);
  }
  all.insert(all.end(), above.rbegin(), above.rend());
  return all;
}

}  // namespace mbench::strategies
