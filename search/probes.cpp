#include "search/probes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/point/fields.h"
#include "engine/sim/recording/recorder.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/step_costs.h"
#include "search/by_layout.h"
#include "search/ideal_machine.h"
#include "search/small_model.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

constexpr std::int64_t kAskedEnds = 4;

Bytes as_doubles(const std::array<std::size_t, kCategories>& bytes) {
  Bytes out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(bytes[i]);
  return out;
}

Bytes difference(const Bytes& a, const Bytes& b) {
  Bytes d{};
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = std::max(0.0, a[i] - b[i]);
  return d;
}

AskedEnds ends_asked(const Point& p, std::size_t kind) {
  if (kind != first_kind(kinds_of(p))) return AskedEnds::none;
  return p.pp == 1 ? AskedEnds::together : is_v_shaped(p.schedule) ? AskedEnds::all : AskedEnds::apart;
}

// Figures of small models from which those parts follow. `of(layers, stages, stage)`: the figure of that stage in a model of so many
// layers and stages; nothing where it cannot be had.
template <class T, class Of>
struct Ends {
  std::optional<T> two, four, last, whole;  // of the first stage; of the second; of the only one
  bool complete = false;
  Ends(AskedEnds asked, const Of& of) : two(of(2, 2, 0)), four(two ? of(4, 2, 0) : two) {
    const bool all = asked == AskedEnds::all;
    complete = two && four;
    if (complete && (all || asked == AskedEnds::apart)) last = of(2, 2, 1), complete = last.has_value();
    if (complete && (all || asked == AskedEnds::together)) whole = of(1, 1, 0), complete = whole.has_value();
  }
};

}  // namespace

struct Probes::Memo {
  sim::Machine machine;
  Host host;
  ByLayout<std::optional<Probe>> probes = {};
  ByLayout<std::optional<Parts<Bytes>>> states = {};

  Plan plan_of(const Point& point) const {
    Plan plan = sim::plan_for(strategies::make_plan(point), machine);
    if (host == Host::free) plan.framework = without_host(*plan.framework);
    return plan;
  }

  std::optional<Probe> record(const ProbeKey& key) const {
    std::optional<sim::HostTimes> times;  // of the first of these models: of two stages
    const auto of = [&](std::int64_t layers, std::int64_t stages, int stage) -> std::optional<Stage> {
      const Point p = small_model(key.point, layers, stages, key.kind);
      if (!strategies::can_be(p)) return std::nullopt;
      const Plan plan = plan_of(p);
      const sim::Links links = small_links(machine, p, plan);
      if (!times) times = sim::host_times(plan, machine);
      const auto recording = sim::record_alike(
          plan, machine.node.devices, [&] { return sim::costs_of(plan, machine, key.ranks); }, &links, stage);
      if (!recording) return std::nullopt;
      const auto& classes = recording->classes.classes;
      return stage_of(recording->step_events.at((stage == 0 ? classes.front() : classes.back()).kind), *times,
                      machine.device.watts);
    };
    const Ends<Stage, decltype(of)> found(key.ends, of);
    if (!found.complete) return std::nullopt;
    const auto less = [](const Stage& a, const Work& b) {
      return Work{a.forward - b.forward, a.backward - b.backward};
    };
    Probe probe;
    Work& layer = probe.work.layer = less(*found.four, {found.two->forward, found.two->backward});
    probe.work.first = less(*found.two, layer);
    if (found.last) probe.work.last = less(*found.last, layer);
    if (found.whole) probe.work.both = less(*found.whole, layer);
    probe.layer_kept = {difference(found.four->kept.bytes, found.two->kept.bytes),
                        found.four->kept.blocks - found.two->kept.blocks};
    return probe;
  }

  static std::optional<Parts<Bytes>> count(const ProbeKey& key) {
    const auto of = [&](std::int64_t layers, std::int64_t stages, int stage) -> std::optional<Bytes> {
      Point p = small_model(key.point, layers, stages, key.kind);
      // Gradients go to the host where there is one stage, and small models have several.
      const bool on_host = offloads_gradients(p.offload);
      if (on_host) p.offload = offloads_weights(p.offload) ? Offload::all : Offload::optimizer;
      if (!strategies::can_be(p)) return std::nullopt;
      Plan plan = strategies::make_plan(p);
      if (on_host) plan.state.gradients_at = Residence::host;
      // Whole parameters go to ranks as they come; no rank's room is less than an even part.
      plan.state.cut = StatePlan::Cut::even;
      return as_doubles(sim::count_state(plan, stage).by_category);
    };
    const Ends<Bytes, decltype(of)> found(key.ends, of);
    if (!found.complete) return std::nullopt;
    Parts<Bytes> parts;
    parts.layer = difference(*found.four, *found.two);
    parts.first = difference(*found.two, parts.layer);
    if (found.last) parts.last = difference(*found.last, parts.layer);
    if (found.whole) parts.both = difference(*found.whole, parts.layer);
    return parts;
  }
};

Probes::Probes(const sim::Machine& machine, Host host) : memo_(new Memo{machine, host}) {}
Probes::~Probes() = default;

ProbeKey Probes::work_key(const Point& point, std::size_t kind) {
  Point p = spread(at_default(small_model(point, 2, 2, kind), {BearsOn::state}), kind);
  const std::int64_t experts = p.model.experts == 0 ? 1 : p.expert_tp() * p.ep;
  for (const std::int64_t dp : strategies::divisors(p.dp, p.dp)) {
    p.dp = dp;
    if (p.tp * p.cp * dp % experts == 0) break;
  }
  return {std::move(p), kind, ends_asked(point, kind), point.world()};
}

ProbeKey Probes::state_key(const Point& point, std::size_t kind) {
  Point p = at_default(small_model(point, 2, 2, kind), {BearsOn::recompute});
  p.offload_activations = {}, p.min_offloaded_tensor_size = 0;
  p = spread(std::move(p), kind);
  p.dp *= std::exchange(p.cp, 1);
  p.cp_communication = {};
  return {std::move(p), kind, ends_asked(point, kind), point.world()};
}

namespace {

// Sets what follows from the micro batch. The number by which the layout is known, of all that is asked of it.
std::int64_t number_of(ProbeKey& key, std::int64_t micro_batch, std::int64_t world) {
  key.point.micro_batch = micro_batch;
  key.point.global_batch = micro_batch * key.point.dp * 2;
  const std::int64_t of_kind = static_cast<std::int64_t>(kLayerKinds) * world + static_cast<std::int64_t>(key.kind);
  return kAskedEnds * of_kind + static_cast<std::int64_t>(key.ends);
}

}  // namespace

const std::optional<Probe>& Probes::work(ProbeKey& key, std::int64_t micro_batch) {
  // Ranks of a node share its processor where that is the device.
  const std::int64_t number = number_of(key, micro_batch, memo_->machine.immediate ? key.ranks : 0);
  return memo_->probes.once(key.point, number, [&] { return memo_->record(key); });
}

const std::optional<Parts<Bytes>>& Probes::state(ProbeKey& key, std::int64_t micro_batch) {
  return memo_->states.once(key.point, number_of(key, micro_batch, 0), [&] { return memo_->count(key); });
}

}  // namespace mbench::search
