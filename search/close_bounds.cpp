#include "search/close_bounds.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "engine/point/fields.h"
#include "engine/sim/play/replay.h"
#include "engine/sim/play/replay_memory.h"
#include "engine/sim/run/step_costs.h"
#include "search/ideal_machine.h"
#include "search/recorded_stage.h"
#include "search/small_model.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

using sim::StepEvents;
using Kind = Action::Kind;
// By how much actions change the handed-out bytes, at their end and at their peak.
struct Change {
  Bytes all{}, most{};
};

Change change_of(const StepEvents& step_events, Kind kind) {
  if (!step_events.actions.contains({kind, 0})) return {};
  const sim::MemoryChange c = sim::change_of(step_events, kind, 0);
  Change out;
  for (std::size_t i = 0; i < out.all.size(); ++i)
    out.all[i] = static_cast<double>(c.all[i]), out.most[i] = static_cast<double>(c.at_most[i]);
  return out;
}

Change in_turn(const Change& a, const Change& b) {
  Change both = a;
  Bytes most = a.all;
  for (std::size_t i = 0; i < most.size(); ++i) most[i] += b.most[i], both.all[i] += b.all[i];
  if (sum(most) > sum(a.most)) both.most = most;
  return both;
}

// Figures of a chunk of so many layers. Times are seconds of the device's stream.
struct Sample {
  double forward = 0, backward = 0;
  double lead = 0;         // before the first forward, and what the first takes longer than others
  double tail = 0;         // from the last backward to the step's end, and what the last takes longer than others
  double end = 0;          // the part of the tail after all gradients are reduced
  double fewest_tail = 0;  // the tail of at most as many layers as were recorded
  std::array<double, 3>
      host{};          // of the step's end: the host's own work, and copies each way; each does one thing at a time
  double message = 0;  // bytes of one
  Change up, down;     // of a forward and a backward, with their messages
  Bytes left{};        // what the first step leaves for all later ones
};

template <class Visit>
void each_figure(Sample& out, const Sample& a, const Sample& b, const Visit& visit) {
  visit(out.forward, a.forward, b.forward);
  visit(out.backward, a.backward, b.backward);
  visit(out.lead, a.lead, b.lead);
  visit(out.tail, a.tail, b.tail);
  visit(out.end, a.end, b.end);
  for (std::size_t i = 0; i < out.host.size(); ++i) visit(out.host[i], a.host[i], b.host[i]);
  for (std::size_t i = 0; i < out.up.all.size(); ++i) {
    visit(out.up.all[i], a.up.all[i], b.up.all[i]);
    visit(out.up.most[i], a.up.most[i], b.up.most[i]);
    visit(out.down.all[i], a.down.all[i], b.down.all[i]);
    visit(out.down.most[i], a.down.most[i], b.down.most[i]);
    visit(out.left[i], a.left[i], b.left[i]);
  }
}

// Recorded chunks have at most this many layers. The first few differ, because of what is fetched ahead and what is still in flight
// after its use.
constexpr std::int64_t kSizes = 4;
// Times and bytes of many layers are lowered by this share: kernels on all of them are rounded to whole tiles and waves.
constexpr double kSlack = 0.002;

// Which ends of the model a chunk has.
enum Ends { first, middle, last, whole, kinds_of_ends };
Ends ends_of(const ChunkPlan& c) {
  return c.first && c.last ? whole : c.first ? first : c.last ? last : middle;
}
using ByEnds = std::array<Sample, kinds_of_ends>;

// The layers of a chunk, or of all chunks of a stage. `main`: the kind whose recordings have the ends; layers of other kinds add to them.
// Where dense layers come first it is the kind of those with experts, if there are some. Where kinds alternate, it is the last layer's:
// behind it a forward keeps most, and a backward begins with it.
struct Layers {
  ByKind counts{};
  std::size_t main = 0;
  double of_main() const { return counts[main]; }
  bool mixed() const { return std::count(counts.begin(), counts.end(), 0.0) < static_cast<int>(kLayerKinds) - 1; }
};

Layers layers_of(const Point& point, const ChunkPlan& c, bool alternating) {
  Layers layers{kinds_of(point, c)};
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (layers.counts[k] > 0) layers.main = k;
  if (alternating && c.layers > 0) layers.main = kind_at(point.model, c.first_layer + c.layers - 1);
  return layers;
}

// A stage's optimizer has the layers of all its chunks.
Layers layers_of(const Point& point, const std::vector<ChunkPlan>& stage, bool alternating) {
  Layers all = layers_of(point, stage[0], alternating);
  for (std::size_t c = 1; c < stage.size(); ++c) {
    const Layers more = layers_of(point, stage[c], alternating);
    if (all.of_main() == 0 || (!alternating && more.main > all.main)) all.main = more.main;
    for (std::size_t k = 0; k < kLayerKinds; ++k) all.counts[k] += more.counts[k];
  }
  return all;
}

// How many layers of a kind are recorded in a chunk.
std::set<std::int64_t> lengths_of(const std::vector<Layers>& chunks, std::size_t kind, bool alternating) {
  std::set<std::int64_t> lengths;
  for (const Layers& layers : chunks) {
    if (layers.counts[kind] == 0) continue;
    const bool main = layers.main == kind;
    lengths.insert(main ? static_cast<std::int64_t>(layers.of_main()) : kSizes + 1);
    if (main && alternating && layers.mixed())
      for (std::int64_t n = 1; n <= kSizes; ++n) lengths.insert(n);
  }
  return lengths;
}

// The recordings that a layout needs, for chunks of one kind of layers.
struct Recorded {
  std::array<const ByEnds*, kSizes> by_layers{};

  const Sample& at(Ends ends, std::int64_t layers) const {
    return (*by_layers[static_cast<std::size_t>(layers - 1)])[ends];
  }
  Sample of(Ends ends, std::int64_t layers) const {
    if (layers < 1) return {};
    if (layers <= kSizes) return at(ends, layers);
    Sample out = at(ends, kSizes);
    const auto more = static_cast<double>(layers - kSizes);
    const Sample one = another(ends);
    each_figure(out, out, one, [&](double& x, double most, double each) { x = most + more * each; });
    return out;
  }
  // What one more of many layers adds: no more than either of the last two did.
  Sample another(Ends ends) const {
    Sample last, before;
    const auto less = [](double& x, double more, double fewer) { x = more - fewer; };
    each_figure(last, at(ends, kSizes), at(ends, kSizes - 1), less);
    each_figure(before, at(ends, kSizes - 1), at(ends, kSizes - 2), less);
    each_figure(last, last, before, [](double& x, double a, double b) { x = std::min(a, b); });
    return last;
  }
};

// The peak of an action where layers of several kinds alternate. Its highest moment depends on their order, so that only what is sure
// counts: a forward's peak above what it keeps, and a backward's from its begin, whichever is least in the recordings.
void take_surest_peaks(Sample& s, const Recorded& main, Ends ends) {
  Bytes above{};
  for (std::int64_t n = 1; n <= kSizes; ++n) {
    const Sample& each = main.at(ends, n);
    Bytes now{};
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = each.up.most[i] - each.up.all[i];
    if (n == 1 || sum(now) < sum(above)) above = now;
    if (n == 1 || sum(each.down.most) < sum(s.down.most)) s.down.most = each.down.most;
  }
  for (std::size_t i = 0; i < above.size(); ++i) s.up.most[i] = s.up.all[i] + above[i];
}

// A chunk of several kinds is a chunk of the main one, plus what each other layer adds.
Sample put_together(const std::array<Recorded, kLayerKinds>& of, Ends ends, const Layers& layers, bool alternating) {
  Sample s = of[layers.main].of(ends, static_cast<std::int64_t>(layers.of_main()));
  if (!layers.mixed()) return s;
  for (std::size_t k = 0; k < kLayerKinds; ++k) {
    if (k == layers.main || layers.counts[k] == 0) continue;
    const Sample one = of[k].another(ends);
    each_figure(s, s, one, [&](double& x, double most, double each) { x = most + each * layers.counts[k]; });
  }
  if (alternating) take_surest_peaks(s, of[layers.main], ends);
  return s;
}

Sample sample_of(const StepEvents& step_events, const sim::HostTimes& times) {
  const auto& forward = step_events.actions.at({Kind::forward, 0});
  const auto& backward = step_events.actions.at({Kind::backward, 0});
  Sample s;
  s.forward = sim::alone(step_events, {&forward.last}, times);
  s.backward = sim::alone(step_events, {&backward.first}, times);
  if (backward.between) s.backward = std::min(s.backward, sim::alone(step_events, {&*backward.between}, times));
  s.lead = std::max(0.0, sim::alone(step_events, {&step_events.begin, &forward.first}, times) - s.forward);
  s.tail = std::max(0.0, sim::alone(step_events, {&backward.last, &step_events.end}, times) - s.backward);
  for (const sim::ClockEvent& e : step_events.end.clock) {
    if (e.kind == sim::ClockEvent::Kind::host_kernel) s.host[0] += e.seconds;
    if (e.kind == sim::ClockEvent::Kind::copy) s.host[1 + e.group] += e.seconds;
  }
  for (const Kind kind : {Kind::receive_activation, Kind::receive_gradient})
    if (const auto found = step_events.actions.find({kind, 0}); found != step_events.actions.end())
      for (const sim::ClockEvent& e : found->second.last.clock)
        if (e.kind == sim::ClockEvent::Kind::receive) s.message = e.flops;
  const auto of = [&](Kind kind) { return change_of(step_events, kind); };
  for (std::size_t i = 0; i < s.left.size(); ++i) s.left[i] = static_cast<double>(step_events.left[i]);
  s.fewest_tail = s.tail;
  s.end = std::min(s.tail, sim::alone(step_events, {&step_events.end}, times));
  s.up = in_turn(in_turn(of(Kind::receive_activation), of(Kind::forward)), of(Kind::send_activation));
  s.down = in_turn(in_turn(of(Kind::receive_gradient), of(Kind::backward)), of(Kind::send_gradient));
  return s;
}

// Seconds in a forward and a backward of the busiest group over dp, or of the copies in one direction if they take longer.
double busiest_of(const StepEvents& step_events) {
  const auto& backward = step_events.actions.at({Kind::backward, 0});
  std::vector<double> busy(step_events.groups.size(), 0);
  std::array<double, 2> copies{};  // by way
  for (const sim::ActionEvents* action_events :
       {&step_events.actions.at({Kind::forward, 0}).last, backward.between ? &*backward.between : &backward.first})
    for (const sim::ClockEvent& e : action_events->clock) {
      if (e.kind == sim::ClockEvent::Kind::collective || e.kind == sim::ClockEvent::Kind::start)
        busy[e.group] += e.seconds;
      if (e.kind == sim::ClockEvent::Kind::copy) copies[e.group] += e.seconds;
    }
  double most = std::max(copies[0], copies[1]);
  for (std::size_t g = 0; g < busy.size(); ++g)
    if (!(step_events.groups[g].axes & Axes{Axis::dp, Axis::edp, Axis::dp_replicate}).empty())
      most = std::max(most, busy[g]);
  return most;
}

}  // namespace

struct CloseBounds::Memo {
  sim::Machine machine;
  const Bounds& bounds;
  sim::Machine simple = ideal(machine);
  std::mutex mutex = {};
  std::map<std::string, std::optional<ByEnds>> recorded = {};
  std::map<std::string, std::optional<std::array<double, 2>>> traffics = {};

  // Samples of chunks with so many layers each.
  std::optional<ByEnds> record(const Point& point, std::int64_t layers, std::int64_t stages, std::size_t kind) const {
    Point p = small_model(point, layers * stages, stages, kind);
    p.global_batch = p.micro_batch * p.dp * 3;
    if (!strategies::can_be(p)) return std::nullopt;
    const Plan plan = sim::plan_for(strategies::make_plan(p), machine);
    const sim::Links links = small_links(machine, p, plan);
    const sim::HostTimes times = sim::host_times(plan, machine);
    const auto recording = sim::record_alike(
        plan, machine.node.devices, [&] { return sim::costs_of(plan, machine); }, &links);
    if (!recording) return std::nullopt;
    ByEnds all;
    for (const auto& c : recording->classes.classes)
      all[ends_of(plan.chunks[static_cast<std::size_t>(c.stage)][0])] =
          sample_of(recording->step_events.at(c.kind), times);
    return all;
  }

  // Records chunks of one and of two layers, without an end of the model. The figures are seconds in a forward and a backward, of the
  // busiest group or of copies. Without latencies they add up, whatever is sent together.
  std::optional<std::array<double, 2>> record_traffic(const Point& point, std::size_t kind) const {
    std::array<double, 2> busy{};
    for (const std::int64_t layers : {1, 2}) {
      Point p = small_model(point, layers * 3, 3, kind);
      p.global_batch = p.micro_batch * p.dp * 3;
      if (!strategies::can_be(p)) return std::nullopt;
      const Plan plan = sim::plan_for(strategies::make_plan(p), machine);
      const sim::Links links = small_links(simple, p, plan);
      const auto recording = sim::record_alike(
          plan, machine.node.devices, [&] { return sim::costs_of(plan, simple); }, &links, 1);
      if (!recording) return std::nullopt;
      for (const auto& c : recording->classes.classes)
        if (c.stage == 1) busy[static_cast<std::size_t>(layers - 1)] = busiest_of(recording->step_events.at(c.kind));
    }
    return busy;
  }

  const std::optional<std::array<double, 2>>& traffic_of(const Point& point, std::size_t kind) {
    Point p = at_default(small_model(point, 3, 3, kind), {BearsOn::recompute});
    p.micro_batch = 1;
    // State is sharded over cp as over dp. Groups of experts are not that simple.
    if (p.model.experts == 0 || !has_experts(kind)) {
      p.dp *= p.cp;
      p.cp = 1;
      p = at_default(std::move(p), {BearsOn::experts});
    }
    p.global_batch = p.dp * 3;
    return once(traffics, fmt::format("{} {}", kind, key_of(p)), [&] { return record_traffic(p, kind); });
  }

  static std::size_t bucket_bytes_of(const Point& point) {
    Point p = small_model(point, 2, 1, first_kind(kinds_of(point)));
    return strategies::can_be(p) ? strategies::make_plan(p).gradient_bucket_bytes : std::size_t{1} << 62;
  }

  // Recordings of chunks of those numbers of layers, and of those from which longer chunks are extrapolated. Nothing where one cannot
  // be recorded.
  std::optional<Recorded> of(const Point& point, std::int64_t stages, std::size_t kind,
                             const std::set<std::int64_t>& lengths) {
    const std::string shape = key_of(small_model(point, stages, stages, kind));
    Recorded all;
    for (std::int64_t layers = 1; layers <= kSizes; ++layers) {
      const bool longer = !lengths.empty() && *lengths.rbegin() > kSizes;
      if (!lengths.contains(layers) && !(longer && layers > kSizes - 3)) continue;
      const auto& made = once(recorded, fmt::format("{} {} {}", kind, layers, shape),
                              [&] { return record(point, layers, stages, kind); });
      if (!made) return std::nullopt;
      all.by_layers[static_cast<std::size_t>(layers - 1)] = &*made;
    }
    return all;
  }

  // `alone`: with state sharded as it is, else as if it were whole. `whole_step`: with what comes before and after all micro batches.
  LowerBound closer(const Point& point, const LowerBound& lower_bound, bool alone, bool whole_step);

  // The value of that key, computed once. Two threads may compute it at the same time, with the same result.
  template <class Map, class Make>
  const typename Map::mapped_type& once(Map& map, const std::string& key, const Make& make) {
    {
      const std::lock_guard lock(mutex);
      if (const auto found = map.find(key); found != map.end()) return found->second;
    }
    auto made = make();
    const std::lock_guard lock(mutex);
    return map.emplace(key, std::move(made)).first->second;
  }

  // Whether each layer's gradients are reduced separately, and a rank owns an even part of each. Then the cost grows evenly with the
  // layers.
  bool layers_alone(const Point& p) const {
    if (p.zero == Zero::oss || p.zero == Zero::oss_sdp) return false;  // whole parameters have owners
    // State of a layer travels while one of another kind computes.
    if (alternates(p, kinds_of(p)) && (p.dp * p.cp > 1 || p.offload != Offload::none)) return false;
    if (p.zero == Zero::stage_3 || p.zero == Zero::fsdp || p.dp * p.cp == 1) return true;
    if (p.model.experts > 0) return false;
    const double bytes = bounds.layer_state(p)[static_cast<std::size_t>(Category::gradients)];
    return bytes >= static_cast<double>(bucket_bytes_of(p));
  }

  // Whether a rank's peers are spread over nodes alike in every stage, and one rank stands for its stage.
  bool stands_for(const Point& p) const {
    const std::int64_t ranks = p.tp * p.cp * p.dp, node = machine.node.devices;
    const bool alike = node == 0 || ranks % node == 0 || node % ranks == 0;
    return alike && !machine.immediate && p.recompute_layers == 0 && !p.offload_activations.any() &&
           p.paged_stash == 0 && p.replicas == Replicas::ranks;
  }
};

CloseBounds::CloseBounds(const sim::Machine& machine, const Bounds& bounds) : memo_(new Memo{machine, bounds}) {}
CloseBounds::~CloseBounds() = default;

double CloseBounds::actions(const Point& point) const {
  Point p = point;
  p.offload = Offload::none, p.offload_fraction = 1;
  const bool sharded = p.zero == Zero::stage_3 || p.zero == Zero::fsdp;
  return memo_->closer(p, {}, sharded && memo_->layers_alone(p), false).seconds;
}

LowerBound CloseBounds::lower_bound(const Point& point, const LowerBound& lower_bound) const {
  const bool alone = memo_->layers_alone(point);
  return memo_->closer(point, lower_bound, alone, alone);
}

LowerBound CloseBounds::Memo::closer(const Point& point, const LowerBound& lower_bound, bool alone, bool whole_step) {
  // Recorded micro batches wait while their tokens travel.
  if (!stands_for(point) || point.overlap_moe) return lower_bound;
  // With whole state: layouts with sharded state do the same actions, and also reduce and update.
  const Point as = alone ? point : at_default(point, {BearsOn::state});
  const std::int64_t chunks = point.pp * point.virtual_stages, stages = std::min<std::int64_t>(chunks, 3);
  const Kinds kinds = kinds_of(point);
  const bool alternating = alternates(point, kinds);
  const auto& plan = bounds.chunks_of(point);
  std::vector<Layers> chunk_layers;
  for (const auto& stage : plan) {
    for (const ChunkPlan& c : stage) chunk_layers.push_back(layers_of(point, c, alternating));
    if (stage.size() > 1) chunk_layers.push_back(layers_of(point, stage, alternating));
  }
  std::array<Recorded, kLayerKinds> of;
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (kinds[k]) {
      const auto found = this->of(as, stages, k, lengths_of(chunk_layers, k, alternating));
      if (!found) return lower_bound;
      of[k] = *found;
    }
  const auto sample = [&](Ends ends, const Layers& layers) { return put_together(of, ends, layers, alternating); };
  // Nothing was recorded for a chunk without layers, nor for a last chunk that has only a part of the end.
  const auto recorded = [&](const ChunkPlan& c) { return c.layers > 0 && (!c.last || has_known_end(point, c)); };
  std::vector<std::vector<Sample>> samples;
  for (const auto& stage : plan) {
    samples.emplace_back();
    for (const ChunkPlan& c : stage)
      samples.back().push_back(recorded(c) ? sample(ends_of(c), layers_of(point, c, alternating)) : Sample());
  }

  LowerBound closer = lower_bound;
  const auto axis = [](std::int64_t n) { return static_cast<int>(n); };
  const sim::Links links(machine, point, Mesh(axis(point.tp), axis(point.cp), axis(point.dp), axis(point.pp)));
  const std::int64_t ranks = point.world() / point.pp;
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const auto message = [&](std::int64_t from, std::int64_t to) {
    const auto rank = [&](std::int64_t stage) { return static_cast<int>((stage + point.pp) % point.pp * ranks); };
    const double bytes = std::max(samples[0][0].message, samples.back().back().message);
    return point.pp == 1 ? 0.0 : links.message(bytes, rank(from), rank(to));
  };
  std::map<int, std::int64_t> stage_at;  // by place in the order of the layers
  for (const auto& stage : plan)
    for (const ChunkPlan& c : stage) stage_at[c.position] = c.stage;
  double there = 0, back = 0;  // of the first micro batch through the stages before; of the last one back through them
  for (std::int64_t s = 0; s < point.pp; ++s) {
    const auto& mine = samples[static_cast<std::size_t>(s)];
    const std::vector<ChunkPlan>& stage = plan[static_cast<std::size_t>(s)];
    double work = 0, tail = mine[0].tail;
    std::array<double, 3> host{};
    for (std::size_t c = 0; c < mine.size(); ++c) {
      const ChunkPlan& chunk = stage[c];
      work += mine[c].forward + mine[c].backward;
      for (const int other : {chunk.position - 1, chunk.position + 1})
        if (const auto from = stage_at.find(other); from != stage_at.end() && from->second != s)
          work += message(from->second, s);
      for (std::size_t i = 0; i < host.size(); ++i) host[i] += mine[c].host[i];
    }
    // What is left to reduce is the first chunk's, whose backward is the last; the optimizer has the layers of all chunks.
    if (mine.size() > 1 && mine[0].forward > 0)
      tail += std::max(0.0, sample(ends_of(stage[0]), layers_of(point, stage, alternating)).end - mine[0].end);
    // Offloaded state moves to the host in pieces that overlap each other. Few layers have fewer pieces.
    if (point.offload != Offload::none) {
      const Sample& few = mine[0];
      tail = std::max({few.fewest_tail, host[0], host[1], host[2]});
    }
    double home = samples[0][0].tail;
    if (point.offload != Offload::none)
      home = std::max({samples[0][0].fewest_tail, samples[0][0].host[0], samples[0][0].host[1], samples[0][0].host[2]});
    double lead = s == 0 ? mine[0].lead : 0;
    if (!whole_step) tail = home = lead = 0;
    if (splits_backward(point.schedule)) home = 0;
    const double seconds = lead + there + work * micro_batches + std::max(tail, back + home);
    closer.seconds = std::max(closer.seconds, seconds * (1 - kSlack));
    there += lead + (s > 0 ? message(s - 1, s) : 0) + mine[0].forward;
    // Where backward is split, gradients of weights are a stage's last action: no other waits for it.
    if (!splits_backward(point.schedule)) back += mine[0].backward + message(s + 1, s);
  }

  for (const int s : bounds.fuller_stages(point)) {
    const auto& mine = samples[static_cast<std::size_t>(s)];
    Bytes now = bounds.state(point, s);
    const auto less = [](const Sample& a, const Sample& b) { return sum(a.left) < sum(b.left); };
    const Bytes left = std::max_element(mine.begin(), mine.end(), less)->left;
    for (std::size_t i = 0; i < now.size(); ++i) now[i] += left[i];
    Bytes most = now;
    for (const Action& a : bounds.start_of(point, s)) {
      const Sample& chunk = mine[static_cast<std::size_t>(a.chunk)];
      const Change& change = a.kind == Kind::forward ? chunk.up : chunk.down;
      Bytes then = now;
      for (std::size_t i = 0; i < now.size(); ++i) then[i] += change.most[i], now[i] += change.all[i];
      // The recorded backward is whole. The peak of one that is split may be lower, and what it leaves is no less.
      const bool known = a.kind == Kind::forward || !splits_backward(point.schedule);
      if (known && sum(then) > sum(most)) most = then;
    }
    for (double& bytes : most) bytes *= 1 - kSlack;
    if (sum(most) > closer.total_bytes()) {
      closer.bytes = most;
      closer.rank = static_cast<int>(ranks * s);
    }
  }
  return closer;
}

double CloseBounds::traffic(const Point& point) const {
  const bool every_time = point.zero == Zero::stage_2 || point.zero == Zero::stage_3 || point.zero == Zero::oss_sdp ||
                          point.zero == Zero::fsdp;
  if (!every_time || !memo_->stands_for(point)) return 0;
  const Kinds kinds = kinds_of(point);
  std::array<std::array<double, 2>, kLayerKinds> by_layers{};
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (kinds[k]) {
      const auto& found = memo_->traffic_of(point, k);
      if (!found) return 0;
      by_layers[k] = *found;
    }
  double most = 0;
  for (const auto& stage : memo_->bounds.chunks_of(point)) {
    double seconds = 0;
    for (const ChunkPlan& c : stage) {
      const ByKind count = kinds_of(point, c);
      for (std::size_t k = 0; k < kLayerKinds; ++k)
        if (count[k] > 0) seconds += by_layers[k][0] + (count[k] - 1) * (by_layers[k][1] - by_layers[k][0]);
    }
    most = std::max(most, seconds);
  }
  return most * static_cast<double>(point.micro_batches()) * (1 - kSlack);
}

}  // namespace mbench::search
