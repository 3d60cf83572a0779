#include "engine/sim/play/player.h"

#include <fmt/format.h>

namespace mbench::sim {

using Kind = ClockEvent::Kind;

Player::Player(const StepEvents& step_events, const HostTimes& times)
    : clock_(times), step_events_(step_events), pendings_(step_events.pendings), copies_(step_events.copies, 0) {
  for (const RecordedGroup& g : step_events.groups) clock_.add_stream(g.name);
}

bool Player::play(const ClockEvent& e) {
  switch (e.kind) {
    case Kind::kernel:
      add_span(Track::compute, e.what, clock_.kernel(e.seconds, e.part, e.times > 0));
      return true;
    case Kind::wait:
      clock_.wait_for(pendings_[e.pending], e.part);
      return true;
    case Kind::synchronize:
      clock_.synchronize();
      return true;
    case Kind::copy: {
      const auto way = static_cast<CopyWay>(e.group);
      const TimeSpan span = clock_.start_copy(way, e.seconds);
      copies_[e.pending] = span.end;
      add_span({Track::copies, mbench::name_of(way)}, e.what, span);
      return true;
    }
    case Kind::copy_wait:
      clock_.wait_until(copies_[e.pending], e.part);
      return true;
    case Kind::copy_host_wait:
      clock_.host_waits_until(copies_[e.pending], e.part);
      return true;
    case Kind::host_kernel:
      add_span(Track::host, e.what, clock_.host_kernel(e.seconds, e.part));
      return true;
    case Kind::host_work:
      clock_.host_work(e.work, static_cast<int>(e.times));
      return true;
    case Kind::span_begins:
      if (timeline_) open_.push_back({e.what, clock_.now()});
      return true;
    case Kind::span_ends:
      if (open_.empty()) return true;
      add_span(Track::phase, open_.back().what, {open_.back().begin, clock_.now()});
      open_.pop_back();
      return true;
    case Kind::collective:
    case Kind::start:
    case Kind::send:
    case Kind::receive:
    case Kind::barrier:
      break;
  }
  return false;
}

CollectiveCall Player::call_of(const ClockEvent& e) const {
  const RecordedGroup& group = step_events_.groups[e.group];
  CollectiveCall call{e.group, e.seconds, e.part};
  call.started = e.kind == Kind::start;
  call.over_tp = group.axes == Axes{Axis::tp};
  call.called = e.times > 0;
  call.slows = e.slows;
  call.meets = group.meets();
  call.behind = e.after == ClockEvent::kNone ? nullptr : &pendings_[e.after];
  return call;
}

void Player::run(const ClockEvent& e, double begin) {
  const TimeSpan span = clock_.run(call_of(e), begin);
  if (e.kind == Kind::start) pendings_[e.pending] = span;
  if (timeline_) add_span(clock_.track(e.group), fmt::format("{} {}", e.what, step_events_.groups[e.group].name), span);
}

double Player::send() {
  clock_.host(clock_.times().message);
  const double left = clock_.now();
  if (clock_.times().messages_block) clock_.synchronize();
  return left;
}

void Player::receive(const ClockEvent& e, double left, double seconds) {
  clock_.host(clock_.times().message);
  const TimeSpan span = clock_.receive(left, seconds, e.part);
  if (timeline_) add_span(clock_.track(e.group), fmt::format("{} {}", e.what, step_events_.groups[e.group].name), span);
}

}  // namespace mbench::sim
