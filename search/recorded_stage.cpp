#include "search/recorded_stage.h"

#include <map>
#include <set>

#include "engine/sim/play/player.h"

namespace mbench::search {
namespace {

using sim::ActionEvents;
using sim::ClockEvent;
using sim::StepEvents;

// What is started in these actions and waited for in them, too by what begins behind it.
std::set<std::uint32_t> waited_for(const ActionEvents& action_events) {
  std::set<std::uint32_t> waited;
  for (auto e = action_events.clock.rbegin(); e != action_events.clock.rend(); ++e) {
    if (e->kind == ClockEvent::Kind::wait) waited.insert(e->pending);
    const bool behind = e->kind == ClockEvent::Kind::start && e->after != ClockEvent::kNone;
    if (behind && waited.contains(e->pending)) waited.insert(e->after);
  }
  return waited;
}

// Of the device: its stream's way through the actions where nobody holds it up, neither the host, nor other ranks, nor what was started
// before; a collective slows no kernel. Of what is started and waited for the part that the kernels between cannot hide counts; what a
// later action waits for, that may find done. In a layer all that is started is waited for, so that the times of layers add up.
Busy busy_of(const StepEvents& step_events, const ActionEvents& action_events, const sim::HostTimes& times,
             const std::optional<PowerCurve>& watts, OfStage what) {
  sim::HostTimes idle_host;
  idle_host.tensor_collectives_block = times.tensor_collectives_block;
  idle_host.progress_in_calls = times.progress_in_calls;
  sim::Player device(step_events, idle_host);
  const std::set<std::uint32_t> waited = waited_for(action_events);
  Busy busy;
  bool graph = false;
  const auto draws = [&](const ClockEvent& e) {
    if (watts) busy.joules += e.seconds * std::max(0.0, watts_of(e.part, *watts) - watts->idle);
  };
  for (const ClockEvent& e : action_events.clock) {
    const bool marked = e.kind == ClockEvent::Kind::kernel || e.kind == ClockEvent::Kind::host_work;
    if (what == OfStage::layers && marked && !e.in_layer) continue;
    switch (e.kind) {
      case ClockEvent::Kind::kernel:
        device.play(e);
        draws(e);
        busy.host += times.kernel_within(graph) * e.times;
        break;
      case ClockEvent::Kind::collective:
      case ClockEvent::Kind::start:
        if (e.kind == ClockEvent::Kind::collective || waited.contains(e.pending)) device.run(e, device.enter(e));
        // What is started may travel while the device waits for its host.
        if (e.kind == ClockEvent::Kind::collective) draws(e);
        busy.host += times.collective_within(graph) * e.times;
        if (step_events.groups[e.group].axes == Axes{Axis::ep}) busy.travelling += e.seconds;
        break;
      case ClockEvent::Kind::wait:
        device.play(e);
        break;
      case ClockEvent::Kind::host_work:
        busy.host += times.of(e.work, graph) * e.times;
        break;
      default:
        break;
    }
  }
  busy.device = device.clock().now();
  return busy;
}

// Taken and not given back.
Kept kept_by(const ActionEvents& action_events, OfStage what) {
  using Kind = sim::MemoryEvent::Kind;
  std::map<std::pair<Kind, std::uint32_t>, std::pair<double, Category>> open;
  for (const sim::MemoryEvent& e : action_events.memory) {
    const bool takes = e.kind == Kind::take_scratch || e.kind == Kind::take_saved || e.kind == Kind::take_kept;
    if (takes) {
      if (what == OfStage::layers && !e.in_layer) continue;
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

}  // namespace

Stage stage_of(const StepEvents& step_events, const sim::HostTimes& times, const std::optional<PowerCurve>& watts,
               OfStage what) {
  // The forward of the last micro batch: without waits for weights. Of backwards whichever takes less of each: the first may write
  // gradients where others add, and the last reduces them.
  const ActionEvents& forward = step_events.actions.at({Action::Kind::forward, 0}).last;
  const auto& backward = step_events.actions.at({Action::Kind::backward, 0});
  const Busy first = busy_of(step_events, backward.first, times, watts, what),
             last = busy_of(step_events, backward.last, times, watts, what);
  return {busy_of(step_events, forward, times, watts, what),
          {std::min(first.device, last.device), std::min(first.host, last.host), std::min(first.joules, last.joules),
           std::max(first.travelling, last.travelling)},
          kept_by(forward, what)};
}

}  // namespace mbench::search
