#include "search/chunk_sample.h"

#include "engine/sim/play/replay.h"
#include "engine/sim/play/replay_memory.h"

namespace mbench::search {
namespace {

using sim::StepEvents;
using Kind = Action::Kind;

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

template <class Visit>
void each_figure(ChunkSample& out, const ChunkSample& a, const ChunkSample& b, const Visit& visit) {
  visit(out.forward, a.forward, b.forward);
  visit(out.backward, a.backward, b.backward);
  visit(out.weight_gradient, a.weight_gradient, b.weight_gradient);
  visit(out.lead, a.lead, b.lead);
  visit(out.tail, a.tail, b.tail);
  visit(out.end, a.end, b.end);
  for (std::size_t i = 0; i < out.host.size(); ++i) visit(out.host[i], a.host[i], b.host[i]);
  for (std::size_t i = 0; i < out.up.all.size(); ++i) {
    visit(out.up.all[i], a.up.all[i], b.up.all[i]);
    visit(out.up.most[i], a.up.most[i], b.up.most[i]);
    visit(out.down.all[i], a.down.all[i], b.down.all[i]);
    visit(out.down.most[i], a.down.most[i], b.down.most[i]);
    visit(out.last.all[i], a.last.all[i], b.last.all[i]);
    visit(out.last.most[i], a.last.most[i], b.last.most[i]);
    visit(out.left[i], a.left[i], b.left[i]);
  }
}

// Adds `more` layers that each have those figures.
void add(ChunkSample& to, const ChunkSample& one, double more) {
  each_figure(to, to, one, [&](double& x, double most, double each) { x = most + more * each; });
}

}  // namespace

ChunkEnds ends_of(const ChunkPlan& c) {
  if (c.first) return c.last ? ChunkEnds::whole : ChunkEnds::first;
  return c.last ? ChunkEnds::last : ChunkEnds::middle;
}

LayersOf layers_of(const Point& point, const ChunkPlan& c, bool alternating) {
  LayersOf layers{kinds_of(point, c)};
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (layers.counts[k] > 0) layers.main = k;
  if (alternating && c.layers > 0) layers.main = kind_at(point.model, c.first_layer + c.layers - 1);
  return layers;
}

LayersOf layers_of(const Point& point, const std::vector<ChunkPlan>& stage, bool alternating) {
  LayersOf all = layers_of(point, stage[0], alternating);
  for (std::size_t c = 1; c < stage.size(); ++c) {
    const LayersOf more = layers_of(point, stage[c], alternating);
    if (all.of_main() == 0 || (!alternating && more.main > all.main)) all.main = more.main;
    for (std::size_t k = 0; k < kLayerKinds; ++k) all.counts[k] += more.counts[k];
  }
  return all;
}

void want(Lengths& lengths, ChunkEnds ends, const LayersOf& layers, bool alternating, bool one) {
  const auto main = static_cast<std::int64_t>(layers.of_main());
  if (one && layers.mixed() && !alternating) {
    const std::int64_t dense = layers.of_others();
    lengths[{layers.main, std::min(dense, kSizes), ends}].insert(main);
    for (std::size_t k = 0; k < kLayerKinds; ++k)
      if (dense > kSizes && k != layers.main && layers.counts[k] > 0) lengths[{k, 0, ends}].insert(kSizes + 1);
    return;
  }
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (layers.counts[k] > 0) lengths[{k, 0, ends}].insert(k == layers.main ? main : kSizes + 1);
  if (alternating && layers.mixed())
    for (std::int64_t n = 1; n <= kSizes; ++n) lengths[{layers.main, 0, ends}].insert(n);
}

ChunkSample RecordedChunks::of(ChunkEnds ends, std::int64_t layers) const {
  if (layers < 1) return {};
  if (layers <= kSizes) return at(ends, layers);
  ChunkSample out = at(ends, kSizes);
  add(out, another(ends), static_cast<double>(layers - kSizes));
  return out;
}

ChunkSample RecordedChunks::another(ChunkEnds ends) const {
  ChunkSample last, before;
  const auto less = [](double& x, double more, double fewer) { x = more - fewer; };
  each_figure(last, at(ends, kSizes), at(ends, kSizes - 1), less);
  each_figure(before, at(ends, kSizes - 1), at(ends, kSizes - 2), less);
  each_figure(last, last, before, [](double& x, double a, double b) { x = std::min(a, b); });
  return last;
}

void RecordedChunks::take_surest_peaks(ChunkEnds ends, ChunkSample& to) const {
  Bytes above{};
  for (std::int64_t n = 1; n <= kSizes; ++n) {
    const ChunkSample& each = at(ends, n);
    Bytes now{};
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = each.up.most[i] - each.up.all[i];
    if (n == 1 || sum(now) < sum(above)) above = now;
    if (n == 1 || sum(each.down.most) < sum(to.down.most)) to.down.most = each.down.most;
  }
  for (std::size_t i = 0; i < above.size(); ++i) to.up.most[i] = to.up.all[i] + above[i];
}

ChunkSample put_together(const RecordedKinds& of, ChunkEnds ends, const LayersOf& layers, bool alternating) {
  ChunkSample s = of.alone[layers.main].of(ends, static_cast<std::int64_t>(layers.of_main()));
  if (!layers.mixed()) return s;
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (k != layers.main && layers.counts[k] > 0) add(s, of.alone[k].another(ends), layers.counts[k]);
  if (alternating) of.alone[layers.main].take_surest_peaks(ends, s);
  return s;
}

ChunkSample in_one_chunk(const RecordedKinds& of, ChunkEnds ends, const LayersOf& layers, bool alternating) {
  if (!layers.mixed() || alternating) return put_together(of, ends, layers, alternating);
  const std::int64_t dense = layers.of_others(), recorded = std::min(dense, kSizes);
  ChunkSample s =
      of.behind_dense[static_cast<std::size_t>(recorded - 1)].of(ends, static_cast<std::int64_t>(layers.of_main()));
  for (std::size_t k = 0; k < kLayerKinds; ++k)
    if (dense > recorded && k != layers.main && layers.counts[k] > 0)
      add(s, of.alone[k].another(ends), static_cast<double>(dense - recorded));
  return s;
}

ChunkSample sample_of(const StepEvents& step_events, const sim::HostTimes& times) {
  const auto& forward = step_events.actions.at({Kind::forward, 0});
  const auto& backward = step_events.actions.at({Kind::backward, 0});
  const auto split = step_events.actions.find({Kind::weight_gradient, 0});
  const auto usual = [&](const sim::RecordedStep::Of& action) {
    const double first = sim::alone(step_events, {&action.first}, times);
    return action.between ? std::min(first, sim::alone(step_events, {&*action.between}, times)) : first;
  };
  ChunkSample s;
  s.forward = sim::alone(step_events, {&forward.last}, times);
  s.backward = usual(backward);
  const bool splits = split != step_events.actions.end();
  if (splits) s.weight_gradient = usual(split->second);
  s.lead = std::max(0.0, sim::alone(step_events, {&step_events.begin, &forward.first}, times) - s.forward);
  // Gradients are reduced behind the last action that completes them.
  s.tail =
      std::max(0.0, sim::alone(step_events, {splits ? &split->second.last : &backward.last, &step_events.end}, times) -
                        (splits ? s.weight_gradient : s.backward));
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
  s.last = of(Kind::weight_gradient);
  return s;
}

}  // namespace mbench::search
