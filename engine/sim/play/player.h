// The clock of one rank, and what the events of its recording do to it. This is the only place that defines it. Where other ranks are
// needed (a collective, a message, a barrier) the caller says when they come.
#pragma once
#include <vector>

#include "engine/device/timeline.h"
#include "engine/sim/play/clock.h"
#include "engine/sim/recording/step_events.h"

namespace mbench::sim {

class Player {
 public:
  // The recordings must outlive it.
  Player(const StepEvents& step_events, const HostTimes& times);

  const VirtualClock& clock() const { return clock_; }
  VirtualClock& clock() { return clock_; }
  // Where spans are recorded from now on; nowhere if null.
  void trace(Timeline* timeline) { timeline_ = timeline; }
  bool traced() const { return timeline_ != nullptr; }

  // Plays an event that needs only this rank. Returns false for those that need others: collective, start, send, receive and barrier.
  bool play(const ClockEvent& event);
  // A collective or its start. enter() returns when it could begin, were this the only rank. run() lets it run from when all can begin.
  double enter(const ClockEvent& event) { return clock_.enter(call_of(event)); }
  void run(const ClockEvent& event, double begin);
  // When the message leaves.
  double send();
  // The message left its sender at `left` and takes `seconds`.
  void receive(const ClockEvent& event, double left, double seconds);

 private:
  CollectiveCall call_of(const ClockEvent& event) const;
  void add_span(const Track& track, std::string_view name, TimeSpan span) {
    if (timeline_) timeline_->add(track, name, span.begin, span.end);
  }

  struct Open {
    const char* what;
    double begin;
  };
  VirtualClock clock_;
  const StepEvents& step_events_;
  std::vector<TimeSpan> pendings_;
  std::vector<double> copies_;  // when they end
  std::vector<Open> open_;      // spans
  Timeline* timeline_ = nullptr;
};

}  // namespace mbench::sim
