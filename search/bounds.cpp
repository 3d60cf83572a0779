#include "search/bounds.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "engine/device/arena.h"
#include "engine/point/fields.h"
#include "engine/sim/recording/recorder.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/step_costs.h"
#include "search/by_layout.h"
#include "search/chunk_work.h"
#include "search/ideal_machine.h"
#include "search/recorded_stage.h"
#include "search/small_model.h"
#include "strategies/schedule.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

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

// `layer_kept`: by a micro batch's forward of a layer.
struct Probe {
  Parts<Work> work;
  Kept layer_kept;
};

using ChunkLayers = std::vector<std::vector<ChunkPlan>>;

Point stays_on_device(Point p) {
  p.offload_activations = {};
  p.min_offloaded_tensor_size = 0;
  return p;
}

// No layer takes less than one that computes nothing again, and whose activations stay where they are.
Point least_work(const Point& point) {
  return stays_on_device(point.recompute_layers > 0 ? at_default(point, {BearsOn::recompute}) : point);
}

}  // namespace

double LowerBound::total_bytes() const {
  return sum(bytes);
}
Category LowerBound::largest() const {
  return static_cast<Category>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

double joules_at_least(const Point& point, double seconds, double busy_joules, const sim::Machine& machine) {
  if (!machine.device.watts) return 0;
  return machine.device.watts->idle * static_cast<double>(point.world()) * seconds + busy_joules;
}

struct Bounds::Memo {
  sim::Machine machine;
  Host host;
  std::mutex mutex = {};  // of the maps
  ByLayout<std::optional<Probe>> probes = {};
  ByLayout<std::optional<Parts<Bytes>>> states = {};
  std::map<std::tuple<std::int64_t, std::int64_t, ScheduleKind, std::int64_t, std::int64_t, std::string>, ChunkLayers>
      chunks = {};
  // The most micro batches, or parts of them, that a stage holds at once.
  using Order = std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<Order, int> under_way = {};
  std::map<Order, Schedule> starts = {};

  // The value of that key, computed once. Two threads may compute it at the same time, with the same result.
  template <class Map, class Make>
  const typename Map::mapped_type& once(Map& map, const typename Map::key_type& key, const Make& make) {
    {
      const std::lock_guard lock(mutex);
      if (const auto found = map.find(key); found != map.end()) return found->second;
    }
    auto made = make();
    const std::lock_guard lock(mutex);
    return map.emplace(key, std::move(made)).first->second;
  }

  // Which ends of the model are probed as well as a layer: those of a layout of several stages, those that are one stage's, or all. Where
  // a model has layers of several kinds, only those of the first are probed with its ends.
  enum class Asked { layer, ends, both, all };
  static constexpr std::int64_t kAsked = 4;
  static Asked asked_of(const Point& p, std::size_t kind) {
    if (kind != first_kind(kinds_of(p))) return Asked::layer;
    return p.pp == 1 ? Asked::both : is_v_shaped(p.schedule) ? Asked::all : Asked::ends;
  }

  // Figures of small models from which those parts follow. `of(layers, stages, stage)`: the figure of that stage in a model of so many
  // layers and stages; nothing where it cannot be had.
  template <class T, class Of>
  struct Ends {
    std::optional<T> two, four, last, whole;  // of the first stage; of the second; of the only one
    bool complete = false;
    Ends(Asked asked, const Of& of) : two(of(2, 2, 0)), four(two ? of(4, 2, 0) : two) {
      complete = two && four;
      if (complete && (asked == Asked::ends || asked == Asked::all)) last = of(2, 2, 1), complete = last.has_value();
      if (complete && (asked == Asked::both || asked == Asked::all)) whole = of(1, 1, 0), complete = whole.has_value();
    }
  };

  Plan plan_of(const Point& point) const {
    Plan plan = sim::plan_for(strategies::make_plan(point), machine);
    if (host == Host::free) plan.framework = without_host(*plan.framework);
    return plan;
  }

  // `ranks`: those of the job. They share a node's processor where it is the device.
  std::optional<Probe> record(const Point& point, std::size_t kind, std::int64_t ranks, Asked asked) const {
    std::optional<sim::HostTimes> times;  // of the first of these models: of two stages
    const auto of = [&](std::int64_t layers, std::int64_t stages, int stage) -> std::optional<Stage> {
      const Point p = small_model(point, layers, stages, kind);
      if (!strategies::can_be(p)) return std::nullopt;
      const Plan plan = plan_of(p);
      const sim::Links links = small_links(machine, p, plan);
      if (!times) times = sim::host_times(plan, machine);
      const auto recording = sim::record_alike(
          plan, machine.node.devices, [&] { return sim::costs_of(plan, machine, ranks); }, &links, stage);
      if (!recording) return std::nullopt;
      const auto& classes = recording->classes.classes;
      return stage_of(recording->step_events.at((stage == 0 ? classes.front() : classes.back()).kind), *times,
                      machine.device.watts);
    };
    const Ends<Stage, decltype(of)> found(asked, of);
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

  std::optional<Parts<Bytes>> count(const Point& point, std::size_t kind, Asked asked) const {
    const auto of = [&](std::int64_t layers, std::int64_t stages, int stage) -> std::optional<Bytes> {
      Point p = small_model(point, layers, stages, kind);
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
    const Ends<Bytes, decltype(of)> found(asked, of);
    if (!found.complete) return std::nullopt;
    Parts<Bytes> parts;
    parts.layer = difference(*found.four, *found.two);
    parts.first = difference(*found.two, parts.layer);
    if (found.last) parts.last = difference(*found.last, parts.layer);
    if (found.whole) parts.both = difference(*found.whole, parts.layer);
    return parts;
  }

  // A layer without experts does not ask how the experts of other layers are spread over ranks.
  static void spread_experts(Point& p, std::size_t kind) {
    if (!has_experts(kind)) p = at_default(std::move(p), {BearsOn::experts});
  }

  // What a micro batch meets does not depend on pp, nor on dp except where experts need so many ranks. Sharding of state only adds:
  // forward and backward with whole state are a lower bound.
  const std::optional<Probe>& probe(const Point& point, std::size_t kind) {
    Point p = at_default(small_model(point, 2, 2, kind), {BearsOn::state});
    spread_experts(p, kind);
    const std::int64_t experts = p.model.experts == 0 ? 1 : p.expert_tp() * p.ep;
    for (const std::int64_t dp : strategies::divisors(p.dp, p.dp)) {
      p.dp = dp;
      if (p.tp * p.cp * dp % experts == 0) break;
    }
    p.global_batch = p.micro_batch * p.dp * 2;
    // Ranks of a node share its processor where that is the device.
    const std::int64_t world = machine.immediate ? point.world() : 0;
    const Asked asked = asked_of(point, kind);
    const std::int64_t of_kind = kLayerKinds * world + static_cast<std::int64_t>(kind);
    return probes.once(p, kAsked * of_kind + static_cast<int>(asked),
                       [&] { return record(p, kind, point.world(), asked); });
  }

  // Nothing where no layers can be recorded. The point must outlive it.
  std::optional<ChunkWork> chunk_work(const Point& point) {
    ChunkWork found{point};
    const Kinds kinds = kinds_of(point);
    found.first = first_kind(kinds);
    for (std::size_t k = 0; k < kLayerKinds; ++k) {
      if (!kinds[k]) continue;
      const auto& probed = probe(point, k);
      if (!probed) return std::nullopt;
      found.work[k] = &probed->work;
    }
    return found;
  }

  // A layer's forward keeps as much more with every sample, and each block is rounded up. So one and two samples give the figure of any
  // number, where they are possible.
  std::optional<Bytes> kept(const Point& point, std::size_t kind) {
    if (point.offload_activations.any()) return Bytes{};  // what stays on the device is not known to grow evenly
    Point p = point;
    p.recompute_layers = 0;  // which keeps least: every layer drops what the first ones do
    const auto of = [&](std::int64_t samples) -> const std::optional<Probe>& {
      p.micro_batch = samples;
      return probe(p, kind);
    };
    const auto own = [&] {
      const auto& found = of(point.micro_batch);
      return found ? std::optional(found->layer_kept.bytes) : std::nullopt;
    };
    if (point.micro_batch <= 2) return own();
    const auto &one = of(1), &two = of(2);
    if (!one || !two) return own();
    const auto samples = static_cast<double>(point.micro_batch);
    Bytes bytes = one->layer_kept.bytes;
    double left = static_cast<double>(Arena::kRounding) * two->layer_kept.blocks * samples;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] += std::max(0.0, two->layer_kept.bytes[i] - one->layer_kept.bytes[i]) * (samples - 1);
      const double rounding = std::min(bytes[i], left);
      bytes[i] -= rounding;
      left -= rounding;
    }
    return bytes;
  }

  // The state of a rank does not depend on the micro batch, on what is recomputed and on how the sequence is split.
  const std::optional<Parts<Bytes>>& state(const Point& point, std::size_t kind) {
    Point p = at_default(small_model(stays_on_device(point), 2, 2, kind), {BearsOn::recompute});
    spread_experts(p, kind);
    const Asked asked = asked_of(point, kind);
    const auto of = [&](const Point& p) -> const std::optional<Parts<Bytes>>& {
      return states.once(p, kAsked * static_cast<std::int64_t>(kind) + static_cast<int>(asked),
                         [&] { return count(p, kind, asked); });
    };
    Point one = p;
    one.micro_batch = 1;
    one.global_batch = one.dp * 2;
    const auto& found = of(one);
    return found || p.micro_batch == 1 ? found : of(p);
  }

  // Of every kind that the model has, and null for the others; nothing where one cannot be counted.
  using States = std::array<const Parts<Bytes>*, kLayerKinds>;
  std::optional<States> states_of(const Point& point) {
    const Kinds kinds = kinds_of(point);
    States all{};
    for (std::size_t k = 0; k < kLayerKinds; ++k) {
      if (!kinds[k]) continue;
      const auto& found = state(point, k);
      if (!found) return std::nullopt;
      all[k] = &*found;
    }
    return all;
  }

  Bytes state_at(const Point& point, const States& states, int stage) {
    Bytes bytes{};
    const auto add = [&](const Bytes& part, double times) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += part[i] * times * (1 - kSlack);
    };
    bool first = false, last = false;
    for (const ChunkPlan& c : chunks_of(point)[static_cast<std::size_t>(stage)]) {
      const ByKind count = kinds_of(point, c);
      for (std::size_t k = 0; k < kLayerKinds; ++k)
        if (states[k]) add(states[k]->layer, count[k]);
      if (!has_known_end(point, c)) continue;
      first = first || c.first, last = last || c.last;
    }
    // Both ends may be in chunks of their own, and share a table of words all the same.
    const Parts<Bytes>& ends = *states[first_kind(kinds_of(point))];
    if (first || last) add(first && last ? ends.both : first ? ends.first : ends.last, 1);
    return bytes;
  }

  // The state of a layer where nothing is sharded.
  Bytes layer_state(const Point& point, std::size_t kind) {
    const auto& found = state(at_default(point, {BearsOn::state}), kind);
    return found ? found->layer : Bytes{};
  }

  // Where weights are sharded, a layer's weights are whole while it computes, next to all that is kept when the first backward begins.
  // This is the part of them that other ranks own. Experts' weights may be sharded over fewer ranks.
  double gathered(const Point& p) {
    if (p.zero != Zero::stage_3 && p.zero != Zero::fsdp) return 0;
    const Kinds kinds = kinds_of(p);
    double least = 1e18;
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (kinds[k]) least = std::min(least, layer_state(p, k)[static_cast<std::size_t>(Category::weights)]);
    const double sharers = static_cast<double>(p.dp * p.cp / p.optimizer_instances) /
                           (p.model.experts > 0 ? static_cast<double>(p.ep) : 1.0);
    return least * std::max(0.0, 1 - 1 / sharers) * (1 - kSlack);
  }

  static Order order_of(const Point& p, int stage) {
    return {p.schedule, p.pp, stage, p.virtual_stages, p.micro_batches(), p.micro_batch_group};
  }

  // The chunks of each stage, from a plan of as few micro batches as there can be.
  const ChunkLayers& chunks_of(const Point& point) {
    return once(chunks,
                std::tuple(point.pp, point.virtual_stages, point.schedule, point.first_stage_layers,
                           point.last_stage_layers, point.pipeline_layout),
                [&] {
                  Point p = point;
                  p.global_batch = p.micro_batch * p.dp * 2 * p.pp;
                  p.micro_batch_group = 0;
                  return strategies::make_plan(p).chunks;
                });
  }

  // Forwards and backwards until the most micro batches are in flight: those up to the first backward, and two more rounds through all
  // chunks.
  const Schedule& start_of(const Point& p, int stage) {
    return once(starts, order_of(p, stage), [&] {
      Schedule start;
      auto more = static_cast<std::size_t>(4 * std::max(p.pp, p.micro_batch_group) * p.virtual_stages);
      bool back = false;
      for (const Action& a :
           strategies::make_schedule(p.schedule, static_cast<int>(p.pp), stage, static_cast<int>(p.virtual_stages),
                                     static_cast<int>(p.micro_batches()), static_cast<int>(p.micro_batch_group))) {
        const bool computes = a.kind == Action::Kind::forward || a.kind == Action::Kind::backward;
        if (!computes && a.kind != Action::Kind::weight_gradient) continue;
        back = back || a.kind == Action::Kind::backward;
        if (back && computes && more-- == 0) break;
        start.push_back(a);
      }
      return start;
    });
  }

  int most_under_way(const Point& p, int stage) {
    return once(under_way, order_of(p, stage), [&] {
      int now = 0, most = 0;
      for (const Action& a :
           strategies::make_schedule(p.schedule, static_cast<int>(p.pp), stage, static_cast<int>(p.virtual_stages),
                                     static_cast<int>(p.micro_batches()), static_cast<int>(p.micro_batch_group))) {
        if (a.kind == Action::Kind::forward) most = std::max(most, ++now);
        if (a.kind == Action::Kind::backward) --now;
      }
      return most;
    });
  }
};

Bounds::Bounds(const sim::Machine& machine, Host host) : memo_(new Memo{machine, host}) {}
Bounds::~Bounds() = default;
const std::vector<std::vector<ChunkPlan>>& Bounds::chunks_of(const Point& point) const {
  return memo_->chunks_of(point);
}

std::vector<int> Bounds::fuller_stages(const Point& point) const {
  const auto& plan = memo_->chunks_of(point);
  const int last = static_cast<int>(plan.size()) - 1;
  double most = -1;
  int at = 0;
  for (int s = 0; s <= last; ++s) {
    double layers = 0;
    constexpr double kFar = 1e6;  // a layer with experts counts more than all without
    for (const ChunkPlan& c : plan[static_cast<std::size_t>(s)]) {
      const ByKind count = kinds_of(point, c);
      for (std::size_t k = 0; k < kLayerKinds; ++k) layers += count[k] * (has_experts(k) ? kFar : 1);
    }
    if (layers > most) most = layers, at = s;
  }
  std::vector<int> stages{0};
  if (at != 0 && at != last) stages.push_back(at);
  if (last != 0) stages.push_back(last);
  return stages;
}

std::array<double, kCategories> Bounds::state(const Point& point, int stage) const {
  const auto states = memo_->states_of(point);
  return states ? memo_->state_at(point, *states, stage) : Bytes{};
}

std::array<double, kCategories> Bounds::layer_state(const Point& point) const {
  return memo_->layer_state(point, first_kind(kinds_of(point)));
}

const Schedule& Bounds::start_of(const Point& point, int stage) const {
  return memo_->start_of(point, stage);
}

LowerBound Bounds::memory(const Point& point, double far_too_much) const {
  LowerBound lower_bound;
  const auto states = memo_->states_of(point);
  if (!states) return lower_bound;
  const int ranks = static_cast<int>(point.world() / point.pp);
  const auto keep_fuller = [&](const Bytes& bytes, int stage) {
    if (sum(bytes) <= lower_bound.total_bytes()) return;
    lower_bound.bytes = bytes;
    lower_bound.rank = ranks * stage;
  };
  const std::vector<int> stages = fuller_stages(point);
  std::vector<Bytes> state;
  for (const int s : stages) keep_fuller(state.emplace_back(memo_->state_at(point, *states, s)), s);
  if (lower_bound.total_bytes() > far_too_much) return lower_bound;

  std::array<std::optional<Bytes>, kLayerKinds> kept;
  for (std::size_t k = 0; k < kLayerKinds; ++k) {
    if (!(*states)[k]) continue;
    kept[k] = memo_->kept(point, k);
    if (!kept[k]) return {};
  }
  const double whole = memo_->gathered(point);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const int s = stages[i];
    Bytes& bytes = state[i];
    ByKind least_kept;  // layers of each kind in the chunk that has fewest
    least_kept.fill(1e18);
    for (const ChunkPlan& c : memo_->chunks_of(point)[static_cast<std::size_t>(s)]) {
      const ByKind count = kinds_of(point, c);
      for (std::size_t k = 0; k < kLayerKinds; ++k) least_kept[k] = std::min(least_kept[k], count[k]);
    }
    const double under_way = memo_->most_under_way(point, s);
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (kept[k])
        for (std::size_t c = 0; c < bytes.size(); ++c) bytes[c] += (*kept[k])[c] * least_kept[k] * under_way;
    bytes[static_cast<std::size_t>(Category::weights)] += whole;
    keep_fuller(bytes, s);
  }
  return lower_bound;
}

double Bounds::seconds(const Point& asked) const {
  const Point point = least_work(asked);
  const auto work = memo_->chunk_work(point);
  if (!work) return 0;
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const bool immediate = memo_->machine.immediate;
  double least = 0,
         before = 0;  // the first micro batch through the first chunks of the stages so far, and the last one back
  for (const auto& stage : memo_->chunks_of(point)) {
    Busy all;
    for (const ChunkPlan& c : stage) all = all + work->both_ways(c);
    all = all * micro_batches;
    least = std::max({least, before + all.chained(immediate, point.overlap_moe), all.host});
    // Where backward is split, gradients of weights are a stage's last action, behind which no other stage has to do anything.
    const ChunkPlan& front = stage.front();
    before += (splits_backward(point.schedule) ? work->of(front, &Work::forward) : work->both_ways(front))
                  .chained(immediate, point.overlap_moe);
  }
  return least * (1 - 1e-9);  // sums are rounded in another order
}

double Bounds::busy_joules(const Point& asked) const {
  if (!memo_->machine.device.watts) return 0;
  const Point point = least_work(asked);
  const auto work = memo_->chunk_work(point);
  if (!work) return 0;
  double joules = 0;  // of a micro batch, on one rank of each stage
  for (const auto& stage : memo_->chunks_of(point))
    for (const ChunkPlan& c : stage) joules += work->both_ways(c).joules;
  const auto ranks = static_cast<double>(point.world() / point.pp);
  return joules * ranks * static_cast<double>(point.micro_batches()) * (1 - 1e-9);
}

LowerBound Bounds::lower_bound(const Point& point) const {
  LowerBound lower_bound = memory(point);
  lower_bound.seconds = seconds(point);
  lower_bound.busy_joules = busy_joules(point);
  return lower_bound;
}

}  // namespace mbench::search
