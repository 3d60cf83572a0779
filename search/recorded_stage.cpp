#include "search/recorded_stage.h"

#include <map>
#include <set>

namespace mbench::search {
namespace {

using sim::ClockEvent;
using sim::StepTapes;
using sim::Tape;

// The stream's way through a run of actions that nobody holds up: neither the host, nor other ranks, nor what was started
// before. A collective that is started begins no earlier than the stream has got there and its group's stream is free, and what
// waits for it goes on no earlier than it has ended; so the part of it that the kernels between cannot hide counts. In a layer all
// that is started is waited for, so that the times of layers add up.
class Alone {
 public:
  explicit Alone(const Tape& tape, bool progress_in_calls) : progress_in_calls_(progress_in_calls) {
    for (auto e = tape.clock.rbegin(); e != tape.clock.rend(); ++e) {
      if (e->kind == ClockEvent::Kind::wait) waited_for_.insert(e->pending);
      // By what begins behind it, too.
      const bool behind = e->kind == ClockEvent::Kind::start && e->after != ClockEvent::kNone;
      if (behind && waited_for_.contains(e->pending)) waited_for_.insert(e->after);
    }
  }
  double now() const { return now_; }
  void kernel(double seconds) { now_ += seconds; }
  void collective(const ClockEvent& e) { now_ = occupy(e); }
  void start(const ClockEvent& e) {
    if (!waited_for_.contains(e.pending)) return;  // by a later action, which may find it done
    const auto before = pending_.find(e.after);
    if (before != pending_.end() && progress_in_calls_) now_ += before->second;
    if (before != pending_.end() && !progress_in_calls_) {
      double& free = free_[e.group];
      free = std::max(free, before->second);
    }
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
        busy.host += times.launch * e.times;
        break;
      case ClockEvent::Kind::collective:
        stream.collective(e);
        busy.host += times.collective * e.times;
        break;
      case ClockEvent::Kind::start:
        stream.start(e);
        busy.host += times.collective * e.times;
        break;
      case ClockEvent::Kind::wait:
        stream.wait(e);
        break;
      case ClockEvent::Kind::host_work:
        busy.host += times.of(e.work) * e.times;
        break;
      default:
        break;
    }
  }
  busy.device = stream.now();
  return busy;
}

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

}  // namespace

Stage stage_of(const StepTapes& tapes, const HostTimes& times) {
  // The forward of the last micro batch: without waits for weights. Of backwards whichever takes less of each: the first may write
  // gradients where others add, and the last reduces them.
  const Tape& forward = tapes.actions.at({Action::Kind::forward, 0}).last;
  const auto& backward = tapes.actions.at({Action::Kind::backward, 0});
  const Busy first = busy_of(backward.first, times), last = busy_of(backward.last, times);
  return {busy_of(forward, times), {std::min(first.device, last.device), std::min(first.host, last.host)}, kept_by(forward)};
}

}  // namespace mbench::search
