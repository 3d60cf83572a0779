#include "engine/sim/recording/repeats.h"

#include <set>

namespace mbench::sim {

Repeats::Action Repeats::look_at(const ActionEvents& action_events, const StepEvents& step_events) const {
  using Kind = ClockEvent::Kind;
  Action action;
  std::set<std::uint32_t> started, copies;
  bool waited = false, graph = false;
  const auto work = [&](double seconds) {
    if (!waited) action.host_work += seconds;
  };
  for (const ClockEvent& e : action_events.clock) {
    switch (e.kind) {
      case Kind::kernel:
        work(times_.kernel_within(graph) * e.times);
        break;
      case Kind::host_work:
        if (HostTimes::changes_clock(e.work)) return {};
        if (e.work == HostWork::loss)
          waited = waited || times_.loss_blocks;
        else
          work(times_.of(e.work, graph) * e.times);
        break;
      case Kind::synchronize:
        waited = true;
        break;
      case Kind::collective:
      case Kind::start:
        if (step_events.groups[e.group].classes.size() > 1) return {};
        work(times_.collective_within(graph) * e.times);
        if (e.kind == Kind::start) started.insert(e.pending);
        break;
      case Kind::copy:
        work(times_.launch);
        copies.insert(e.pending);
        break;
      case Kind::copy_wait:
        if (copies.erase(e.pending) == 0) return {};
        break;
      case Kind::wait:
        if (started.erase(e.pending) == 0) return {};
        break;
      default:
        return {};
    }
  }
  action.alone = started.empty() && copies.empty();
  return action;
}

std::optional<Repeats::Known>* Repeats::of(const ActionEvents& action_events, const StepEvents& step_events,
                                           const VirtualClock& clock) {
  auto found = actions_.find(&action_events);
  if (found == actions_.end()) found = actions_.emplace(&action_events, look_at(action_events, step_events)).first;
  Action& action = found->second;
  if (!action.alone) return nullptr;
  const auto standing = clock.standing(action.host_work);
  return standing == VirtualClock::Standing::other ? nullptr : &action.known[static_cast<std::size_t>(standing)];
}

}  // namespace mbench::sim
