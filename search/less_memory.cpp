#include "search/less_memory.h"

#include <algorithm>
#include <functional>

#include "engine/base/error.h"
#include "engine/point/abilities.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

struct Saving {
  std::string name;
  std::function<bool(Point&)> apply;  // false where it changes nothing
};

template <class Part, class Member>
Saving setting(const std::string& name, Member Part::*member, Member value) {
  return {name, [=](Point& p) { return std::exchange(p.*member, value) != value; }};
}

// The same ranks with fewer replicas: twice as many along another axis.
Saving instead_of_dp(const std::string& name, std::int64_t Point::*axis) {
  return {name, [=](Point& p) {
            if (p.dp % 2 != 0 || p.model.experts > 0) return false;
            p.dp /= 2;
            p.*axis *= 2;
            return true;
          }};
}

std::vector<Saving> changes_of(const Point& p) {
  std::vector<Saving> all = {
      setting("recompute selective", &Point::recompute, Recompute::selective),
      setting("recompute full", &Point::recompute, Recompute::full),
      setting("attention flash", &Point::attention, AttentionKind::flash),
      setting("zero 1", &Point::zero, Zero::stage_1),
      setting("zero 2", &Point::zero, Zero::stage_2),
      setting("zero 3", &Point::zero, Zero::stage_3),
      {"half the micro_batch", [](Point& q) { return q.micro_batch % 2 == 0 && (q.micro_batch /= 2) > 0; }},
      instead_of_dp(fmt::format("tp {} with dp {}", p.tp * 2, p.dp / 2), &Point::tp),
      instead_of_dp(fmt::format("pp {} with dp {}", p.pp * 2, p.dp / 2), &Point::pp),
      instead_of_dp(fmt::format("cp {} with dp {}", p.cp * 2, p.dp / 2), &Point::cp)};
  for (const auto& choice : choices_of<Offload>())
    if (choice.value != Offload::none)
      all.push_back({fmt::format("offload {}", choice.name), [offload = choice.value](Point& q) {
                       q.offload_fraction = 1;
                       return std::exchange(q.offload, offload) != offload;
                     }});
  if (p.offload_fraction != 1) all.push_back(setting("offload_fraction 1", &Point::offload_fraction, 1.0));
  for (const auto& choice : strategies::activation_offload().choices(p, 0))
    for (const nlohmann::json& value : choice.values)
      if (value != "none")
        all.push_back(setting(fmt::format("offload_activations {}", value.get<std::string>()),
                              &Point::offload_activations, read_offloaded_activations(value, "less_memory")));
  if (p.tp > 1) all.push_back(setting("sequence_parallel true", &Point::sequence_parallel, true));
  // Where more is dropped or split already, less of it is no way to memory.
  std::erase_if(all, [&](const Saving& c) {
    if (c.name == "recompute selective") return p.recompute != Recompute::none;
    return c.name.starts_with("zero ") && static_cast<int>(p.zero) >= c.name.back() - '0';
  });
  return all;
}

double counted_mib(const Point& p) {
  const auto peaks = sim::forecast_memory(strategies::make_plan(p), 0).peak_by_stage;
  std::size_t most = 0;
  for (const MemoryUse& use : peaks) most = std::max(most, use.total);
  return static_cast<double>(most) / 1048576;
}

}  // namespace

std::vector<LessMemory> less_memory(const Point& point, std::optional<double> now_ms, const Simulate& simulate) {
  const double now = counted_mib(point);
  const std::string lacks = lacking(framework_of(point.framework)->can, point);
  std::vector<LessMemory> all;
  for (const Saving& change : changes_of(point)) {
    Point other = point;
    if (!change.apply(other) || other.micro_batches() < 1 || other.global_batch % (other.micro_batch * other.dp) != 0)
      continue;
    if (!strategies::can_be(other) || lacking(framework_of(point.framework)->can, other) != lacks) continue;
    LessMemory less{change.name, 0, std::nullopt, true};
    try {
      less.freed_mib = now - counted_mib(other);
      if (less.freed_mib < 0.01 * now) continue;
      const double ms = simulate(other).result.iteration_ms->mean;
      if (now_ms) less.more_time = ms / *now_ms - 1;
    } catch (const Error& e) {
      const auto outcome = outcome_of(e.kind());
      if (!outcome) throw;
      if (*outcome != Outcome::oom) continue;
      less.fits = false;
    }
    all.push_back(std::move(less));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const LessMemory& a, const LessMemory& b) { return a.freed_mib > b.freed_mib; });
  return all;
}

}  // namespace mbench::search
