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

// A small model of so many layers and stages, and which stage of it is looked at.
struct Asked {
  int layers, stages, stage;
  std::int64_t number() const { return (layers * 2 + stages - 1) * 2 + stage; }
};
constexpr std::int64_t kAsked = 20;  // more than any number
constexpr Asked kTwo{2, 2, 0}, kFour{4, 2, 0}, kLast{2, 2, 1}, kWhole{1, 1, 0}, kMiddle{3, 3, 1};

// Figures of small models from which those parts follow. `of(asked)`: null where it cannot be had.
template <class T>
struct Ends {
  const T *two, *four, *last = nullptr, *whole = nullptr;  // of the first stage; of the second; of the only one
  bool complete = false;
  template <class Of>
  Ends(AskedEnds asked, const Of& of) : two(of(kTwo)), four(two ? of(kFour) : two) {
    const bool all = asked == AskedEnds::all;
    complete = two && four;
    if (complete && (all || asked == AskedEnds::apart)) last = of(kLast), complete = last;
    if (complete && (all || asked == AskedEnds::together)) whole = of(kWhole), complete = whole;
  }
};

// The number by which the layout is known, of what is asked of its layers; and of its ends too.
std::int64_t number_of(const ProbeKey& key, std::int64_t world) {
  return static_cast<std::int64_t>(kLayerKinds) * world + static_cast<std::int64_t>(key.kind);
}
std::int64_t with_ends(const ProbeKey& key, std::int64_t world) {
  return kAskedEnds * number_of(key, world) + static_cast<std::int64_t>(key.ends);
}

}  // namespace

struct Probes::Memo {
  sim::Machine machine;
  Host host;
  // A recorded stage, and what the host takes there.
  struct Recorded {
    Stage stage;
    sim::HostTimes times;
  };
  ByLayout<std::optional<Probe>> probes = {};
  ByLayout<std::optional<Parts<Bytes>>> states = {};
  // Of what they are made. Layouts that ask for other ends have the same layers, and layers of any kind the same ends.
  ByLayout<std::optional<Recorded>> stages = {};
  ByLayout<std::optional<Bytes>> counted = {};

  Plan plan_of(const Point& point) const {
    Plan plan = sim::plan_for(strategies::make_plan(point), machine);
    if (host == Host::free) plan.framework = without_host(*plan.framework);
    return plan;
  }

  // `like`: the stage that is known of that layout, whose host counts.
  std::optional<Recorded> record(const ProbeKey& key, const Asked& asked, const Recorded* like) const {
    const Point p = small_model(key.point, asked.layers, asked.stages, key.kind);
    if (!strategies::can_be(p)) return std::nullopt;
    const Plan plan = plan_of(p);
    const sim::Links links = small_links(machine, p, plan);
    const sim::HostTimes times = like ? like->times : sim::host_times(plan, machine);
    const auto recording = sim::record_alike(
        plan, machine.node.devices, [&] { return sim::costs_of(plan, machine, key.ranks); }, &links, asked.stage);
    if (!recording) return std::nullopt;
    const auto& classes = recording->classes.classes;
    const auto of_stage = std::ranges::find(classes, asked.stage, &sim::RankClasses::Class::stage);
    const int kind = of_stage->kind;
    const OfStage what = asked.stages > 2 ? OfStage::layers : OfStage::all;
    return Recorded{stage_of(recording->step_events.at(kind), times, machine.device.watts, what), times};
  }

  std::optional<Probe> find(const ProbeKey& key, std::int64_t world) {
    // A stage between others has nothing but layers: one recording says what two do otherwise.
    if (key.ends == AskedEnds::none)
      if (const auto layer = record(key, kMiddle, nullptr))
        return Probe{{{layer->stage.forward, layer->stage.backward}, {}, {}, {}}, layer->stage.kept};
    const Recorded* first = nullptr;  // of these models: of two stages
    const auto of = [&](const Asked& asked) -> const Stage* {
      const std::int64_t number = (number_of(key, world) * kAsked) + asked.number();
      const auto& found = stages.once(key.point, number, [&] { return record(key, asked, first); });
      if (!found) return nullptr;
      if (!first) first = &*found;
      return &found->stage;
    };
    const Ends<Stage> found(key.ends, of);
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

  static std::optional<Bytes> count(const ProbeKey& key, const Asked& asked) {
    Point p = small_model(key.point, asked.layers, asked.stages, key.kind);
    // Gradients go to the host where there is one stage, and small models have several.
    const bool on_host = offloads_gradients(p.offload);
    if (on_host) p.offload = offloads_weights(p.offload) ? Offload::all : Offload::optimizer;
    if (!strategies::can_be(p)) return std::nullopt;
    Plan plan = strategies::make_plan(p);
    if (on_host) plan.state.gradients_at = Residence::host;
    // Whole parameters go to ranks as they come; no rank's room is less than an even part.
    plan.state.cut = StatePlan::Cut::even;
    return as_doubles(sim::count_state(plan, asked.stage).by_category);
  }

  std::optional<Parts<Bytes>> find_state(const ProbeKey& key) {
    const auto of = [&](const Asked& asked) -> const Bytes* {
      const std::int64_t number = (number_of(key, 0) * kAsked) + asked.number();
      const auto& found = counted.once(key.point, number, [&] { return count(key, asked); });
      return found ? &*found : nullptr;
    };
    const Ends<Bytes> found(key.ends, of);
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

// Sets what follows from the micro batch.
void set_micro_batch(ProbeKey& key, std::int64_t micro_batch) {
  key.point.micro_batch = micro_batch;
  key.point.global_batch = micro_batch * key.point.dp * 2;
}

}  // namespace

const std::optional<Probe>& Probes::work(ProbeKey& key, std::int64_t micro_batch) {
  // Ranks of a node share its processor where that is the device.
  const std::int64_t world = memo_->machine.immediate ? key.ranks : 0;
  set_micro_batch(key, micro_batch);
  return memo_->probes.once(key.point, with_ends(key, world), [&] { return memo_->find(key, world); });
}

const std::optional<Parts<Bytes>>& Probes::state(ProbeKey& key, std::int64_t micro_batch) {
  set_micro_batch(key, micro_batch);
  return memo_->states.once(key.point, with_ends(key, 0), [&] { return memo_->find_state(key); });
}

}  // namespace mbench::search
