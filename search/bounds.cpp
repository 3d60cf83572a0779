#include "search/bounds.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "engine/device/arena.h"
#include "engine/sim/cluster.h"
#include "engine/sim/counting.h"
#include "engine/sim/recorder.h"
#include "search/small_model.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

using sim::ClockEvent;
using sim::StepTapes;
using sim::Tape;
using Bytes = std::array<double, kCategories>;

// What a run of actions keeps busy: the device's stream, and the host that feeds it.
struct Busy {
  double device = 0, host = 0;
  Busy operator+(const Busy& o) const { return {device + o.device, host + o.host}; }
  Busy operator-(const Busy& o) const { return {std::max(0.0, device - o.device), std::max(0.0, host - o.host)}; }
  Busy operator*(double n) const { return {device * n, host * n}; }
  // What keeps the stages behind waiting: the host runs ahead of its device, but where it computes itself.
  double chained(bool immediate) const { return immediate ? device + host : device; }
};

// The stream's way through a run of actions that nobody holds up: neither the host, nor other ranks, nor what was started
// before. A collective that is started begins no earlier than the stream has got there and its group's stream is free, and what
// waits for it goes on no earlier than it has ended; so the part of it that the kernels between cannot hide counts. In a layer all
// that is started is waited for, so that the times of layers add up.
class Alone {
 public:
  explicit Alone(const Tape& tape, bool progress_in_calls) : progress_in_calls_(progress_in_calls) {
    for (const ClockEvent& e : tape.clock)
      if (e.kind == ClockEvent::Kind::wait) waited_for_.insert(e.pending);
  }
  double now() const { return now_; }
  void kernel(double seconds) { now_ += seconds; }
  void collective(const ClockEvent& e) { now_ = occupy(e); }
  void start(const ClockEvent& e) {
    if (!waited_for_.contains(e.pending)) return;  // by a later action, which may find it done
    // What makes progress in calls alone takes its time where it is waited for.
    pending_[e.pending] = progress_in_calls_ ? e.seconds : occupy(e);
  }
  void wait(const ClockEvent& e) {
    const auto found = pending_.find(e.pending);
    if (found == pending_.end()) return;
    now_ = progress_in_calls_ ? now_ + found->second : std::max(now_, found->second);
  }

 private:
  double occupy(const ClockEvent& e) {
    double& free = free_[e.group];
    return free = std::max(now_, free) + e.seconds;
  }

  bool progress_in_calls_;
  double now_ = 0;
  std::set<std::uint32_t> waited_for_;
  std::map<std::uint32_t, double> pending_;  // when they end
  std::map<std::uint16_t, double> free_;     // when a group's stream is
};

Busy busy_of(const Tape& tape, const HostTimes& times) {
  Busy busy;
  Alone stream(tape, times.progress_in_calls);
  for (const ClockEvent& e : tape.clock) {
    switch (e.kind) {
      case ClockEvent::Kind::kernel:
        stream.kernel(e.seconds);
        busy.host += times.launch;
        break;
      case ClockEvent::Kind::collective:
        stream.collective(e);
        busy.host += times.collective;
        break;
      case ClockEvent::Kind::start:
        stream.start(e);
        busy.host += times.collective;
        break;
      case ClockEvent::Kind::wait:
        stream.wait(e);
        break;
      case ClockEvent::Kind::micro_batch:
        busy.host += times.micro_batch;
        break;
      case ClockEvent::Kind::recompute:
        busy.host += times.recompute;
        break;
      default:
        break;
    }
  }
  busy.device = stream.now();
  return busy;
}

// What a run of actions leaves behind: bytes, and in how many blocks.
struct Kept {
  Bytes bytes{};
  double blocks = 0;
};

// Taken and not given back.
Kept kept_by(const Tape& tape) {
  using Kind = sim::MemoryEvent::Kind;
  std::map<std::pair<Kind, std::uint32_t>, std::pair<double, Category>> open;
  for (const sim::MemoryEvent& e : tape.memory) {
    const bool takes = e.kind == Kind::take_scratch || e.kind == Kind::take_saved || e.kind == Kind::take_kept;
    if (takes) {
      open[{e.kind, e.block}] = {static_cast<double>(e.size), e.category};
      continue;
    }
    open.erase({e.kind == Kind::free_scratch ? Kind::take_scratch
                : e.kind == Kind::free_kept  ? Kind::take_kept
                                             : Kind::take_saved,
                e.block});  // none where it is of another action
  }
  Kept kept;
  for (const auto& [key, block] : open) {
    kept.bytes[static_cast<std::size_t>(block.second)] += block.first;
    ++kept.blocks;
  }
  return kept;
}

// Of one stage of a small model, a micro batch.
struct Stage {
  Busy forward, backward;
  Kept kept;  // by its forward
};

Stage stage_of(const StepTapes& tapes, const HostTimes& times) {
  // The forward of the last micro batch: without waits for weights. Of backwards whichever takes less of each: the first may write
  // gradients where others add, and the last reduces them.
  const Tape& forward = tapes.actions.at({Action::Kind::forward, 0}).last;
  const auto& backward = tapes.actions.at({Action::Kind::backward, 0});
  const Busy first = busy_of(backward.first, times), last = busy_of(backward.last, times);
  return {busy_of(forward, times), {std::min(first.device, last.device), std::min(first.host, last.host)}, kept_by(forward)};
}

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

// A layer, and the ends of the model. `first`: the embedding; `last`: the head; `both`: of a stage that has both, where what
// each stage does for a micro batch is done once, and a table that embeds words and makes the logits is there once.
template <class T>
struct Parts {
  T layer, first, last, both;
  const T& end_of(const ChunkPlan& c) const { return c.first && c.last ? both : c.first ? first : last; }
};
struct Work {
  Busy forward, backward;
};
// By a micro batch's forward of a layer.
struct Probe {
  Parts<Work> work;
  Kept layer_kept;
};

using ChunkLayers = std::vector<std::vector<ChunkPlan>>;

// What this thread found for the points it asked for last. Layouts that follow each other have most in common, and comparing
// two points takes a fraction of writing out the key of one.
template <class Value>
class Recent {
 public:
  // The place of that point, found or not. `owner`: whose values they are; `other`: what else they depend on.
  struct Place {
    std::uint64_t owner = 0;
    std::int64_t other = 0;
    Point point;
    const Value* value = nullptr;  // null: not known
  };
  static Place& place(std::uint64_t owner, std::int64_t other, const Point& p) {
    static thread_local std::vector<Place> places(kPlaces);
    std::uint64_t hash = owner;
    const auto add = [&](std::int64_t n) { hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x9E3779B97F4A7C15u; };
    for (const std::int64_t n : {p.tp, p.pp, p.dp, p.cp, p.ep, p.etp, p.micro_batch, p.virtual_stages, other}) add(n);
    for (const bool on : {p.sequence_parallel, p.fsdp_no_sync}) add(on);
    add(static_cast<std::int64_t>(p.cp_communication));
    add(static_cast<std::int64_t>(p.zero));
    add(static_cast<std::int64_t>(p.offload));
    for (int r = 0; r < kRegions; ++r) add(p.recompute.regions.has(static_cast<Region>(r)));
    Place& found = places[(hash >> 32) % kPlaces];
    if (found.value && !(found.owner == owner && found.other == other && found.point == p)) found.value = nullptr;
    if (!found.value) found.owner = owner, found.other = other, found.point = p;
    return found;
  }

 private:
  static constexpr std::size_t kPlaces = 512;
};

std::uint64_t new_owner() {
  static std::atomic<std::uint64_t> owners{0};
  return ++owners;
}

}  // namespace

double Floor::total_bytes() const {
  return std::accumulate(bytes.begin(), bytes.end(), 0.0);
}

Category Floor::largest() const {
  return static_cast<Category>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
}

struct Bounds::Memo {
  Machine machine;
  Framework framework;
  std::uint64_t owner = new_owner();
  std::mutex mutex = {};  // of the maps
  std::map<std::string, std::optional<Probe>> probes = {};
  std::map<std::string, std::optional<Parts<Bytes>>> states = {};
  std::map<std::tuple<std::int64_t, std::int64_t, ScheduleKind>, ChunkLayers> chunks = {};
  // Micro batches, or parts of ones, that a stage holds at once at most.
  std::map<std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, int> under_way = {};
  std::map<std::tuple<ScheduleKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t>, Schedule> starts = {};

  // The value of that key, made once; two threads may make one at the same time, to the same.
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

  // `as`: whose share of the machine its ranks have.
  std::optional<Probe> record(const Point& point, bool dense, const Point& as) const {
    const HostTimes times = host_times(point, machine, framework);
    const Links links = links_of(point, machine);
    const auto stages = [&](std::int64_t layers, std::int64_t count) -> std::optional<std::pair<Stage, Stage>> {
      const Point p = small_model(point, layers, count, dense);
      if (strategies::why_not(p)) return std::nullopt;
      const auto recording = sim::record(
          strategies::make_plan(p), machine.devices_per_node, [&] { return costs_of(as, machine, framework); },
          &links);
      if (!recording) return std::nullopt;
      const auto& classes = recording->classes.classes;
      return std::pair(stage_of(recording->tapes.at(classes.front().kind), times),
                       stage_of(recording->tapes.at(classes.back().kind), times));
    };
    const auto one = stages(1, 1), two = stages(2, 2), four = stages(4, 2);
    if (!one || !two || !four) return std::nullopt;
    const auto less = [](const Stage& a, const Work& b) { return Work{a.forward - b.forward, a.backward - b.backward}; };
    Probe probe;
    Work& layer = probe.work.layer = less(four->first, {two->first.forward, two->first.backward});
    probe.work.first = less(two->first, layer);
    probe.work.last = less(two->second, layer);
    probe.work.both = less(one->first, layer);
    probe.layer_kept = {difference(four->first.kept.bytes, two->first.kept.bytes),
                        four->first.kept.blocks - two->first.kept.blocks};
    return probe;
  }

  std::optional<Parts<Bytes>> count(const Point& point, bool dense) const {
    const auto stages = [&](std::int64_t layers, std::int64_t count) -> std::optional<std::pair<Bytes, Bytes>> {
      const Point p = small_model(point, layers, count, dense);
      if (strategies::why_not(p)) return std::nullopt;
      Plan plan = strategies::make_plan(p);
      // Whole parameters go to ranks as they come; no rank's room is less than an even part.
      plan.state.cut = StatePlan::Cut::even;
      const auto of = [&](int stage) {
        const MemoryUse use = count_state(plan, stage);
        return as_doubles(use.by_category);
      };
      const Bytes first = of(0);
      return std::pair(first, count > 1 ? of(1) : first);
    };
    const auto one = stages(1, 1), two = stages(2, 2), four = stages(4, 2);
    if (!one || !two || !four) return std::nullopt;
    Parts<Bytes> parts;
    parts.layer = difference(four->first, two->first);
    parts.first = difference(two->first, parts.layer);
    parts.last = difference(two->second, parts.layer);
    parts.both = difference(one->first, parts.layer);
    return parts;
  }

  // A dense layer has no experts, whatever the ranks that have those of others.
  static void without_experts(Point& p, bool dense) {
    if (dense) p.ep = 1, p.etp = 0;
  }

  // What a micro batch meets does not depend on pp and on dp, but where experts need so many ranks, nor on how state is
  // sharded: then the forward and backward of whole state are a floor.
  const std::optional<Probe>& probe(const Point& point, bool dense) {
    Point p = small_model(point, 2, 2, dense);
    p.zero = Zero::none;
    p.fsdp_no_sync = false;
    p.offload = Offload::none;
    without_experts(p, dense);
    const std::int64_t experts = p.model.experts == 0 ? 1 : p.expert_tp() * p.ep;
    for (const std::int64_t dp : strategies::divisors(p.dp, p.dp)) {
      p.dp = dp;
      if (p.tp * p.cp * dp % experts == 0) break;
    }
    p.global_batch = p.micro_batch * p.dp * 2;
    // Ranks of a node share its processor where that is the device.
    const std::int64_t world = machine.immediate ? point.world() : 0;
    auto& recent = Recent<std::optional<Probe>>::place(owner, 2 * world + dense, p);
    if (!recent.value)
      recent.value = &once(probes, fmt::format("{} {} {}", dense, world, key_of(p)), [&] { return record(p, dense, point); });
    return *recent.value;
  }

  // What a micro batch's forward of a layer keeps grows by as much with every sample, each block rounded up; so one and two
  // samples tell of all, where they can be.
  std::optional<Bytes> kept(const Point& point, bool dense) {
    Point p = point;
    p.recompute_layers = 0;  // which keeps least: every layer drops what the first ones do
    const Point all = p;
    p.micro_batch = 1;
    const auto& one = probe(p, dense);
    p.micro_batch = 2;
    const auto& two = probe(p, dense);
    if (!one || !two || point.micro_batch <= 2) {
      const auto& own = probe(all, dense);
      return own ? std::optional(own->layer_kept.bytes) : std::nullopt;
    }
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
  const std::optional<Parts<Bytes>>& state(const Point& point, bool dense) {
    Point p = small_model(point, 2, 2, dense);
    p.recompute = Recompute::none;
    p.recompute_layers = 0;
    without_experts(p, dense);
    Point one = p;
    one.micro_batch = 1;
    one.global_batch = one.dp * 2;
    if (!strategies::why_not(one)) p = one;
    auto& recent = Recent<std::optional<Parts<Bytes>>>::place(owner, dense, p);
    if (!recent.value) recent.value = &once(states, fmt::format("{} {}", dense, key_of(p)), [&] { return count(p, dense); });
    return *recent.value;
  }

  // The chunks of each stage, from a plan of as few micro batches as there can be.
  const ChunkLayers& chunks_of(const Point& point) {
    return once(chunks, std::tuple(point.pp, point.virtual_stages, point.schedule), [&] {
      Point p = point;
      p.global_batch = p.micro_batch * p.dp * p.pp;
      return strategies::make_plan(p).chunks;
    });
  }

  // Forwards and backwards until as much is under way as ever will be: those up to the first backward, and two rounds through
  // all chunks more.
  const Schedule& start_of(const Point& p, int stage) {
    return once(starts, std::tuple(p.schedule, p.pp, std::int64_t{stage}, p.virtual_stages, p.micro_batches()), [&] {
      Schedule start;
      std::size_t more = static_cast<std::size_t>(4 * p.pp * p.virtual_stages);
      bool back = false;
      for (const Action& a : strategies::make_schedule(p.schedule, static_cast<int>(p.pp), stage,
                                                       static_cast<int>(p.virtual_stages),
                                                       static_cast<int>(p.micro_batches()))) {
        if (a.kind != Action::Kind::forward && a.kind != Action::Kind::backward) continue;
        back = back || a.kind == Action::Kind::backward;
        if (back && more-- == 0) break;
        start.push_back(a);
      }
      return start;
    });
  }

  int most_under_way(const Point& p, int stage) {
    return once(under_way,
                std::tuple(p.schedule, p.pp, std::int64_t{stage}, p.virtual_stages, p.micro_batches()), [&] {
                  int now = 0, most = 0;
                  for (const Action& a : strategies::make_schedule(
                           p.schedule, static_cast<int>(p.pp), stage, static_cast<int>(p.virtual_stages),
                           static_cast<int>(p.micro_batches()))) {
                    if (a.kind == Action::Kind::forward) most = std::max(most, ++now);
                    if (a.kind == Action::Kind::backward) --now;
                  }
                  return most;
                });
  }
};

Bounds::Bounds(const Machine& machine, const Framework& framework) : memo_(new Memo{machine, framework}) {}
Bounds::~Bounds() = default;

const std::vector<std::vector<ChunkPlan>>& Bounds::chunks_of(const Point& point) const {
  return memo_->chunks_of(point);
}

std::array<double, kCategories> Bounds::state(const Point& point, int stage) const {
  const std::array<bool, 2> kinds = kinds_of(point);
  const Parts<Bytes>* state[2] = {};
  Bytes bytes{};
  for (int k = 0; k < 2; ++k) {
    if (!kinds[static_cast<std::size_t>(k)]) continue;
    const auto& found = memo_->state(point, k == 0);
    if (!found) return bytes;
    state[k] = &*found;
  }
  const auto add = [&](const Bytes& part, double times) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += part[i] * times * (1 - kSlack);
  };
  for (const ChunkPlan& c : memo_->chunks_of(point)[static_cast<std::size_t>(stage)]) {
    const auto count = kinds_of(point, c);
    for (int k = 0; k < 2; ++k)
      if (state[k]) add(state[k]->layer, count[static_cast<std::size_t>(k)]);
    if (c.first || c.last) add((state[0] ? state[0] : state[1])->end_of(c), 1);
  }
  return bytes;
}

std::array<double, kCategories> Bounds::layer_state(const Point& point) const {
  Point whole = point;
  whole.zero = Zero::none;
  whole.fsdp_no_sync = false;
  whole.offload = Offload::none;
  const auto& found = memo_->state(whole, kinds_of(point)[0]);
  return found ? found->layer : Bytes{};
}

const Schedule& Bounds::start_of(const Point& point, int stage) const {
  return memo_->start_of(point, stage);
}

Floor Bounds::memory(const Point& point) const {
  Floor floor;
  const std::array<bool, 2> kinds = kinds_of(point);
  const Parts<Bytes>* state[2] = {};
  std::optional<Bytes> kept[2];
  for (int k = 0; k < 2; ++k) {
    if (!kinds[static_cast<std::size_t>(k)]) continue;
    const auto& found = memo_->state(point, k == 0);
    kept[k] = memo_->kept(point, k == 0);
    if (!found || !kept[k]) return floor;
    state[k] = &*found;
  }
  const ChunkLayers& chunks = memo_->chunks_of(point);
  const int last = static_cast<int>(point.pp) - 1;
  for (const int s : {0, last}) {
    Bytes bytes{};
    const auto add = [&](const Bytes& part, double times) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += part[i] * times;
    };
    double least_kept[2] = {1e18, 1e18};  // layers of each kind in the chunk that has fewest
    for (const ChunkPlan& c : chunks[static_cast<std::size_t>(s)]) {
      const auto count = kinds_of(point, c);
      for (int k = 0; k < 2; ++k) {
        if (state[k]) add(state[k]->layer, count[static_cast<std::size_t>(k)] * (1 - kSlack));
        least_kept[k] = std::min(least_kept[k], count[static_cast<std::size_t>(k)]);
      }
      if (c.first || c.last) add((state[0] ? state[0] : state[1])->end_of(c), 1 - kSlack);
    }
    for (int k = 0; k < 2; ++k)
      if (kept[k]) add(*kept[k], least_kept[k] * memo_->most_under_way(point, s));
    const double total = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    if (total > floor.total_bytes()) {
      floor.bytes = bytes;
      floor.rank = static_cast<int>(point.world() / point.pp) * s;
    }
  }
  return floor;
}

double Bounds::seconds(const Point& asked) const {
  Point point = asked;
  if (point.recompute_layers > 0) {  // no layer takes less than one that computes nothing again
    point.recompute = Recompute::none;
    point.recompute_layers = 0;
  }
  const std::array<bool, 2> kinds = kinds_of(point);
  const Parts<Work>* work[2] = {};
  for (int k = 0; k < 2; ++k) {
    if (!kinds[static_cast<std::size_t>(k)]) continue;
    const auto& found = memo_->probe(point, k == 0);
    if (!found) return 0;
    work[k] = &found->work;
  }
  const auto sum = [&](const ChunkPlan& c, Busy Work::*of) {
    Busy busy;
    const auto count = kinds_of(point, c);
    for (int k = 0; k < 2; ++k)
      if (work[k]) busy = busy + work[k]->layer.*of * count[static_cast<std::size_t>(k)];
    return c.first || c.last ? busy + (work[0] ? work[0] : work[1])->end_of(c).*of : busy;
  };
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const bool immediate = memo_->machine.immediate;
  double least = 0, before = 0;  // the first micro batch through the first chunks of the stages so far, and the last one back
  for (const auto& stage : memo_->chunks_of(point)) {
    Busy all;
    for (const ChunkPlan& c : stage) all = all + sum(c, &Work::forward) + sum(c, &Work::backward);
    all = all * micro_batches;
    least = std::max({least, before + all.chained(immediate), all.host});
    before += (sum(stage.front(), &Work::forward) + sum(stage.front(), &Work::backward)).chained(immediate);
  }
  return least * (1 - 1e-9);  // sums are rounded in another order
}

Floor Bounds::floor(const Point& point) const {
  Floor floor = memory(point);
  floor.seconds = seconds(point);
  return floor;
}

}  // namespace mbench::search
