#include "search/tried.h"

#include <algorithm>

#include "engine/sim/run/simulate.h"
#include "engine/sim/run/step_costs.h"
#include "strategies/strategies.h"

namespace mbench::search {

std::optional<std::string> why_lacking(const Point& point, const sim::Machine& machine) {
  return mbench::sim::why_lacking({point.precision, point.attention, point.offload, point.fp8_recipe,
                                   point.offload_activations, point.paged_stash_host},
                                  machine, *framework_of(point.framework));
}

Tried simulated(const Point& point, const SearchTarget& place, bool may_fit) {
  Tried t;
  t.point = point;
  t.fits = may_fit;
  const Plan plan = strategies::make_plan(point);
  const int devices = static_cast<int>(place.devices);
  const sim::SimulateOptions options{.recordings = place.recordings, .threads = place.threads};
  sim::Simulation s;
  try {
    if (may_fit) s = sim::simulate_point(point, plan, place.machine, devices, options);
  } catch (const OutOfMemory&) {
    t.fits = false;
  }
  if (!t.fits) {
    sim::Machine roomy = place.machine;
    roomy.device.memory_bytes = roomy.host.memory_bytes = std::uint64_t{1} << 60;
    Point unlimited = point;
    unlimited.memory_limit = 0;
    s = sim::simulate_point(unlimited, plan, roomy, devices, options);
    s.result.point = point;
    s.result.id = point_id(point);
  }
  t.result = std::move(s.result);
  const auto& reserved = s.reserved_by_stage;
  const auto fullest = std::max_element(reserved.begin(), reserved.end());
  t.fullest_rank = static_cast<int>(fullest - reserved.begin()) *
                   static_cast<int>(point.world() / static_cast<std::int64_t>(reserved.size()));
  t.needed_mib = static_cast<double>(*fullest) / kMiB;
  t.fits = t.fits && t.needed_mib <= limit_mib(point, place);
  return t;
}

Costs costs_of(const Tried& t) {
  return {t.result.iteration_ms->mean, t.needed_mib, t.point.world(), t.result.energy_joules.value_or(0)};
}

double limit_mib(const Point& point, const SearchTarget& place) {
  const std::uint64_t all = place.machine.usable_memory();
  return static_cast<double>(point.memory_limit == 0 ? all : std::min(all, point.memory_limit)) / kMiB -
         place.memory_margin_mib;
}

Tried try_layout(const Point& point, const SearchTarget& place, const Bounds& bounds, const CloseBounds& close) {
  Tried t = simulated(point, place);
  t.lower_bound = close.lower_bound(point, bounds.lower_bound(point));
  for (int i = 0; i < CloseBounds::kParts; ++i) close.raise(i, point, t.lower_bound);
  return t;
}

}  // namespace mbench::search
