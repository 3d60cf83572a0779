#include "search/close_bounds.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/point/fields.h"
#include "engine/sim/recording/recorder.h"
#include "engine/sim/run/step_costs.h"
#include "search/by_layout.h"
#include "search/chunk_sample.h"
#include "search/ideal_machine.h"
#include "search/played_schedule.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

using sim::StepEvents;
using Kind = Action::Kind;

// Times and bytes of many layers are lowered by this share: kernels on all of them are rounded to whole tiles and waves.
constexpr double kSlack = 0.002;

Point on_device(Point p) {
  p.offload = Offload::none, p.offload_fraction = 1;
  return p;
}

// Micro batches whose gradients are reduced as they come, and whose backward is split, are not recorded alone: their backward is
// recorded whole.
bool is_split(const Point& p) {
  return splits_backward(p.schedule) && (p.zero == Zero::none || p.zero == Zero::stage_1 || p.zero == Zero::oss);
}
// The stage that has those ends, in a small model of so many stages.
int stage_of(ChunkEnds ends, std::int64_t stages) {
  return ends == ChunkEnds::middle ? 1 : ends == ChunkEnds::last ? static_cast<int>(stages) - 1 : 0;
}

// A small model with so many layers of the kind a stage, and backward split where that is wanted. Where dense layers come in front of
// them, the stages before have only such.
Point small_of(const Point& point, std::int64_t layers, std::int64_t stages, const Recorded& r, bool split) {
  const std::int64_t each = r.dense + layers;
  Point p = spread(small_model(point, each * stages, stages, r.kind, r.dense > 0), r.kind);
  if (r.dense > 0) p.model.dense_layers = stage_of(r.ends, stages) * each + r.dense;
  if (split) p.schedule = ScheduleKind::zb_h1;
  return p;
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
  PlayedSchedules schedules = {};
  ByLayout<std::optional<ChunkSample>> recorded = {};
  ByLayout<std::optional<std::array<double, 2>>> traffics = {};

  // A sample of a chunk with so many layers of the kind.
  std::optional<ChunkSample> record(const Point& point, std::int64_t layers, std::int64_t stages, const Recorded& r,
                                    bool split) const {
    Point p = small_of(point, layers, stages, r, split);
    p.global_batch = p.micro_batch * p.dp * 3;
    if (!strategies::can_be(p)) return std::nullopt;
    const Plan plan = sim::plan_for(strategies::make_plan(p), machine);
    const sim::Links links = small_links(machine, p, plan);
    const int stage = stage_of(r.ends, stages);
    const auto recording = sim::record_alike(
        plan, machine.node.devices, [&] { return sim::costs_of(plan, machine); }, &links, stage);
    if (!recording) return std::nullopt;
    std::optional<ChunkSample> sample;  // of the last class of the stage's ranks
    for (const auto& c : recording->classes.classes)
      if (c.stage == stage) sample = sample_of(recording->step_events.at(c.kind), sim::host_times(plan, machine));
    return sample;
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

  double traffic(const Point& point);
  const std::optional<std::array<double, 2>>& traffic_of(const Point& point, std::size_t kind) {
    Point p = spread(at_default(small_model(point, 3, 3, kind), {BearsOn::recompute}), kind);
    p.micro_batch = 1;
    p.cp_communication = {};                                // of activations
    if (p.model.experts == 0) p.sequence_parallel = false;  // likewise; experts over tp need it
    // What only the optimizer has in host memory does not travel for a micro batch.
    p.offload_fraction = 1;
    if (!offloads_weights(p.offload) && !offloads_gradients(p.offload)) p.offload = Offload::none;
    // State is sharded over cp as over dp. Groups of experts are not that simple.
    if (!has_experts(kind)) p.dp *= std::exchange(p.cp, 1);
    p.global_batch = p.dp * 3;
    return traffics.once(p, static_cast<std::int64_t>(kind), [&] { return record_traffic(p, kind); });
  }

  static std::size_t bucket_bytes_of(const Point& point) {
    Point p = small_model(point, 2, 1, first_kind(kinds_of(point)));
    return strategies::can_be(p) ? strategies::make_plan(p).gradient_bucket_bytes : std::size_t{1} << 62;
  }

  // Recordings of chunks of those numbers of layers, and of those from which longer chunks are extrapolated. False where one cannot be
  // recorded. Neighbours ask for the same at the same time: what another thread records comes last.
  bool find(const Point& point, std::int64_t stages, bool split, const Lengths& wanted, RecordedKinds& found) {
    struct Missing {
      const Recorded* of;
      Point shape;
      std::int64_t number, layers;
    };
    std::vector<Missing> missing;
    const auto set = [&](const Recorded& r, std::int64_t layers, const std::optional<ChunkSample>& made) {
      if (made) found.of(r).set(r.ends, layers, *made);
      return made.has_value();
    };
    for (const auto& [r, lengths] : wanted) {
      const Point shape = small_of(point, 1, stages, r, split);
      const auto number = static_cast<std::int64_t>((r.kind * kChunkEnds + static_cast<std::size_t>(r.ends)) * kSizes);
      for (std::int64_t layers = 1; layers <= kSizes; ++layers) {
        const bool longer = *lengths.rbegin() > kSizes;
        if (!lengths.contains(layers) && !(longer && layers > kSizes - 3)) continue;
        const auto* made =
            recorded.unless_being_made(shape, number + layers, [&] { return record(point, layers, stages, r, split); });
        if (!made)
          missing.push_back({&r, shape, number + layers, layers});
        else if (!set(r, layers, *made))
          return false;
      }
    }
    return std::all_of(missing.begin(), missing.end(), [&](const Missing& m) {
      return set(*m.of, m.layers,
                 recorded.once(m.shape, m.number, [&] { return record(point, m.layers, stages, *m.of, split); }));
    });
  }

  // What a bound looks at: chunks without an end of the model; all chunks; also what comes before and after all micro batches.
  enum class Detail { middle, actions, step };

  // The chunks of a layout's stages, as far as they were recorded.
  struct Chunks {
    const std::vector<std::vector<ChunkPlan>>& plan;     // [stage, chunk]
    std::vector<std::vector<ChunkSample>> samples = {};  // likewise
    std::vector<double> ends = {};  // [stage]: seconds of the step's end, were all the stage's layers one chunk
    bool split = false;             // backward was recorded as the schedule has it
  };
  // Recorded as `as` does them. Nothing where a layer cannot be recorded.
  std::optional<Chunks> chunks_of(const Point& point, const Point& as, Detail detail);
  double seconds(const Point& point, const Chunks& chunks, Detail detail) const;
  void raise_memory(const Point& point, const Chunks& chunks, LowerBound& lower_bound) const;
  // Nothing too where micro batches do not act alone.
  std::optional<Chunks> acting_as(const Point& point, const Point& as, Detail detail) {
    return acts_alone(point) ? chunks_of(point, as, detail) : std::nullopt;
  }

  // All state is whole. No rank along dp is talked to then; where there are experts, their ranks may be some of these.
  Point whole(const Point& point) const {
    Point p = at_default(point, {BearsOn::state});
    const std::int64_t ranks = p.tp * p.cp, node = machine.node.devices;
    if (p.model.experts == 0 && (node == 0 || ranks % node == 0 || node % ranks == 0)) p.dp = 1;
    return p;
  }
  // Whether micro batches gather weights, each layer's by themselves.
  bool gathers_alone(const Point& p) const {
    return (p.zero == Zero::stage_3 || p.zero == Zero::fsdp) && layers_alone(on_device(p));
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
  // Recorded micro batches of overlap_moe wait while their tokens travel.
  bool acts_alone(const Point& p) const { return stands_for(p) && !p.overlap_moe; }
};

CloseBounds::CloseBounds(const sim::Machine& machine, const Bounds& bounds) : memo_(new Memo{machine, bounds}) {}
CloseBounds::~CloseBounds() = default;

bool CloseBounds::raise(int part, const Point& point, LowerBound& lower_bound) const {
  using Detail = Memo::Detail;
  const double seconds = lower_bound.seconds;
  const auto raise_to = [&](double found) { lower_bound.seconds = std::max(lower_bound.seconds, found); };
  if (part == 0) {
    raise_to(memo_->traffic(point));
  } else if (part == 1) {
    if (const auto chunks = memo_->acting_as(point, memo_->whole(point), Detail::actions))
      raise_to(memo_->seconds(point, *chunks, Detail::actions));
  } else if (memo_->gathers_alone(point)) {
    // With fewer chunks each has an end.
    const Detail detail = part == 2 ? Detail::middle : Detail::actions;
    if (detail == Detail::middle && point.pp * point.virtual_stages < 3) return false;
    if (const auto chunks = memo_->acting_as(point, on_device(point), detail))
      raise_to(memo_->seconds(point, *chunks, detail));
  }
  return lower_bound.seconds > seconds;
}

LowerBound CloseBounds::lower_bound(const Point& point, const LowerBound& lower_bound) const {
  LowerBound closer = lower_bound;
  if (!memo_->acts_alone(point)) return closer;
  // With whole state: layouts with sharded state do the same actions, and also reduce and update.
  const bool alone = memo_->layers_alone(point);
  const auto detail = alone ? Memo::Detail::step : Memo::Detail::actions;
  const auto chunks = memo_->chunks_of(point, alone ? point : at_default(point, {BearsOn::state}), detail);
  if (!chunks) return closer;
  closer.seconds = std::max(closer.seconds, memo_->seconds(point, *chunks, detail));
  memo_->raise_memory(point, *chunks, closer);
  return closer;
}

auto CloseBounds::Memo::chunks_of(const Point& point, const Point& as, Detail detail) -> std::optional<Chunks> {
  const std::int64_t stages = std::min<std::int64_t>(point.pp * point.virtual_stages, 3);
  const Kinds kinds = kinds_of(point);
  const bool alternating = alternates(point, kinds);
  Chunks chunks{bounds.chunks_of(point)};
  // Nothing is recorded for a chunk without layers, nor for a last chunk that has only a part of the end.
  const auto is_recorded = [&](const ChunkPlan& c) {
    return c.layers > 0 && (!c.last || has_known_end(point, c)) &&
           (detail != Detail::middle || ends_of(c) == ChunkEnds::middle);
  };
  Lengths wanted;
  for (const auto& stage : chunks.plan) {
    for (const ChunkPlan& c : stage)
      if (is_recorded(c)) want(wanted, ends_of(c), layers_of(point, c, alternating), alternating, true);
    if (stage.size() > 1 && detail == Detail::step && is_recorded(stage[0]))
      want(wanted, ends_of(stage[0]), layers_of(point, stage, alternating), alternating, false);
  }
  RecordedKinds of;
  chunks.split = is_split(as) && find(as, stages, true, wanted, of);
  if (!chunks.split && !find(as, stages, false, wanted, of)) return std::nullopt;
  for (const auto& stage : chunks.plan) {
    auto& mine = chunks.samples.emplace_back();
    for (const ChunkPlan& c : stage)
      mine.push_back(is_recorded(c) ? in_one_chunk(of, ends_of(c), layers_of(point, c, alternating), alternating)
                                    : ChunkSample());
    const bool several = stage.size() > 1 && detail == Detail::step && is_recorded(stage[0]);
    chunks.ends.push_back(
        several ? put_together(of, ends_of(stage[0]), layers_of(point, stage, alternating), alternating).end
                : mine[0].end);
  }
  return chunks;
}

double CloseBounds::Memo::seconds(const Point& point, const Chunks& chunks, Detail detail) const {
  const auto& [plan, samples, ends, split] = chunks;
  const auto axis = [](std::int64_t n) { return static_cast<int>(n); };
  const sim::Links links(machine, point, Mesh(axis(point.tp), axis(point.cp), axis(point.dp), axis(point.pp)));
  const std::int64_t ranks = point.world() / point.pp;
  const auto micro_batches = static_cast<double>(point.micro_batches());
  const double bytes = std::max(samples[0][0].message, samples.back().back().message);
  std::map<std::pair<std::int64_t, std::int64_t>, double> messages;
  const auto message = [&](std::int64_t from, std::int64_t to) {
    if (point.pp == 1) return 0.0;
    const auto rank = [&](std::int64_t stage) { return static_cast<int>((stage + point.pp) % point.pp * ranks); };
    const auto [at, fresh] = messages.try_emplace({from, to});
    if (fresh) at->second = links.message(bytes, rank(from), rank(to));
    return at->second;
  };
  std::map<int, std::int64_t> stage_at;  // by place in the order of the layers
  for (const auto& stage : plan)
    for (const ChunkPlan& c : stage) stage_at[c.position] = c.stage;
  const bool splits = splits_backward(point.schedule), offloads = point.offload != Offload::none;
  const bool ahead = framework_of(point.framework)->posts_receives_ahead(plan[0].size());
  const auto longest = [](double fewest, const std::array<double, 3>& host) {
    return std::max({fewest, host[0], host[1], host[2]});
  };
  const ChunkSample& front = samples[0][0];
  double home = offloads ? longest(front.fewest_tail, front.host) : front.tail;
  if (splits || detail != Detail::step) home = 0;
  double most = 0;
  std::vector<double> tails;   // [stage]
  double there = 0, back = 0;  // of the first micro batch through the stages before; of the last one back through them
  for (std::int64_t s = 0; s < point.pp; ++s) {
    const auto& mine = samples[static_cast<std::size_t>(s)];
    const std::vector<ChunkPlan>& stage = plan[static_cast<std::size_t>(s)];
    double work = 0, tail = mine[0].tail;
    std::array<double, 3> host{};
    for (std::size_t c = 0; c < mine.size(); ++c) {
      const ChunkPlan& chunk = stage[c];
      work += mine[c].forward + mine[c].backward + mine[c].weight_gradient;
      for (const int other : {chunk.position - 1, chunk.position + 1})
        if (const auto from = stage_at.find(other); !ahead && from != stage_at.end() && from->second != s)
          work += message(from->second, s);
      for (std::size_t i = 0; i < host.size(); ++i) host[i] += mine[c].host[i];
    }
    // What is left to reduce is the first chunk's, whose backward is the last; the optimizer has the layers of all chunks.
    if (mine[0].forward > 0) tail += std::max(0.0, ends[static_cast<std::size_t>(s)] - mine[0].end);
    // Offloaded state moves to the host in pieces that overlap each other. Few layers have fewer pieces.
    if (offloads) tail = longest(mine[0].fewest_tail, host);
    double lead = s == 0 ? mine[0].lead : 0;
    if (detail != Detail::step) tail = lead = 0;
    tails.push_back(tail);
    most = std::max(most, lead + there + work * micro_batches + std::max(tail, back + home));
    there += lead + (s > 0 ? message(s - 1, s) : 0) + mine[0].forward;
    // Where backward is split, gradients of weights are a stage's last action: no other waits for it.
    if (!splits) back += mine[0].backward + message(s + 1, s);
  }
  if (split && detail != Detail::middle) {
    PlayedPipeline pipeline{point.schedule, point.micro_batches(), point.micro_batch_group, plan, {}, message};
    pipeline.receives_ahead = ahead;
    if (detail == Detail::step) pipeline.lead = front.lead;
    for (const auto& stage : samples) {
      auto& mine = pipeline.seconds.emplace_back();
      for (const ChunkSample& c : stage) mine.push_back({c.forward, c.backward, c.weight_gradient});
    }
    const std::vector<double> played = schedules.ends_of(pipeline);
    for (std::size_t s = 0; s < played.size(); ++s) most = std::max(most, played[s] + tails[s]);
  }
  return most * (1 - kSlack);
}

void CloseBounds::Memo::raise_memory(const Point& point, const Chunks& chunks, LowerBound& lower_bound) const {
  for (const int s : bounds.fuller_stages(point)) {
    const auto& mine = chunks.samples[static_cast<std::size_t>(s)];
    Bytes now = bounds.state(point, s);
    const auto less = [](const ChunkSample& a, const ChunkSample& b) { return sum(a.left) < sum(b.left); };
    const Bytes left = std::max_element(mine.begin(), mine.end(), less)->left;
    for (std::size_t i = 0; i < now.size(); ++i) now[i] += left[i];
    Bytes most = now;
    for (const Action& a : bounds.start_of(point, s)) {
      const ChunkSample& chunk = mine[static_cast<std::size_t>(a.chunk)];
      const Change& change = a.kind == Kind::forward ? chunk.up : a.kind == Kind::backward ? chunk.down : chunk.last;
      Bytes then = now;
      for (std::size_t i = 0; i < now.size(); ++i) then[i] += change.most[i], now[i] += change.all[i];
      // A backward that was recorded whole frees what one that is split leaves for later, and its peak may be higher.
      const bool known = a.kind == Kind::forward || chunks.split || !splits_backward(point.schedule);
      if (known && sum(then) > sum(most)) most = then;
    }
    for (double& bytes : most) bytes *= 1 - kSlack;
    if (sum(most) <= lower_bound.total_bytes()) continue;
    lower_bound.bytes = most;
    lower_bound.rank = static_cast<int>(point.world() / point.pp * s);
  }
}

double CloseBounds::Memo::traffic(const Point& point) {
  const bool every_time = point.zero == Zero::stage_2 || point.zero == Zero::stage_3 || point.zero == Zero::oss_sdp ||
                          point.zero == Zero::fsdp;
  if (!every_time || !stands_for(point)) return 0;
  const Kinds kinds = kinds_of(point);
  std::array<std::array<double, 2>, kLayerKinds> by_layers{};
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (kinds[k]) {
      const auto& found = traffic_of(point, k);
      if (!found) return 0;
      by_layers[k] = *found;
    }
  double most = 0;
  for (const auto& stage : bounds.chunks_of(point)) {
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
