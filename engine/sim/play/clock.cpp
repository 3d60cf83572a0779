#include "engine/sim/play/clock.h"

namespace mbench::sim {

bool HostTimes::changes_clock(HostWork work) {
  return work == HostWork::replicas || work == HostWork::alone || work == HostWork::step || work == HostWork::next_step;
}

double HostTimes::of(HostWork kind, bool& graph) const {
  if (kind == HostWork::graph || kind == HostWork::graph_goes_on) graph = true;
  if (kind == HostWork::graph) return work[kind];
  if (kind == HostWork::graph_end) graph = false;
  if (changes_clock(kind) || kind == HostWork::graph_goes_on || kind == HostWork::graph_end) return 0;
  if (graph) return kind == HostWork::call ? graph_node : 0;
  return work[kind];
}

void VirtualClock::host_work(HostWork work, int times) {
  switch (work) {
    case HostWork::micro_batch:
      return micro_batch();
    case HostWork::replicas:
      return together(true);
    case HostWork::alone:
      return together(false);
    case HostWork::step:
      return begin_step();
    case HostWork::next_step:
      return wait_for_loader();
    case HostWork::loss:
      if (times_.loss_blocks) synchronize();
      return;
    default:
      return host(times_.of(work, in_graph_) * times);
  }
}

// Here and not inline, so that every caller gets the same bits: what a compiler joins to a fused multiply-add depends on what
// stands around it.
TimeSpan VirtualClock::kernel(double seconds, TimePart part, bool called) {
  const double before = now();
  if (called) host_ += together_ ? times_.launch_together : times_.kernel_within(in_graph_);
  charge(TimePart::host, before);
  const double begin = now();
  const double overlapped = std::min(begin + seconds, overlapped_.end) - std::max(begin, overlapped_.begin);
  wait_until(begin + whole_ticks(seconds + std::max(0.0, overlapped) * times_.overlap_slowdown), part);
  return {begin, compute_};
}

double VirtualClock::enter(const CollectiveCall& call) {
  // What makes progress in calls alone is waited for before another call begins.
  if (call.behind && times_.progress_in_calls) wait_for(*call.behind, call.part);
  if (call.called) host(times_.collective_within(in_graph_));
  const double ready = std::max(now(), at(call.stream).free);
  return call.behind && !times_.progress_in_calls ? std::max(ready, call.behind->end) : ready;
}

TimeSpan VirtualClock::run(const CollectiveCall& call, double begin) {
  const TimeSpan span{begin, at(call.stream).free = begin + call.seconds};
  const bool waits = !call.started || (call.over_tp && times_.tensor_collectives_block);
  if (waits) {
    if (call.meets) wait_until(span.begin, TimePart::bubble);
    wait_until(span.end, call.part);
  } else if (call.slows && !times_.progress_in_calls) {
    overlapped_ = {call.behind ? call.behind->begin : span.begin, span.end};
  }
  return span;
}

VirtualClock::Standing VirtualClock::standing(double host_work) const {
  const double at = now();
  if (together_ || overlapped_.end > at || copies_free_[0] > at || copies_free_[1] > at) return Standing::other;
  for (const Stream& s : streams_)
    if (s.free > at) return Standing::other;
  if (host_ >= compute_) return Standing::idle;
  return host_ + host_work <= compute_ ? Standing::behind : Standing::other;
}

VirtualClock::Move VirtualClock::since(const VirtualClock& before) const {
  const double at = before.now();
  Move move;
  move.host = host_ - before.host_;
  move.loader = loader_ - before.loader_;
  if (waits_ != before.waits_) move.waited = host_ - at;
  if (compute_ != before.compute_) move.compute = compute_ - at;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].free != before.streams_[i].free) move.streams.emplace_back(i, streams_[i].free - at);
  if (overlapped_.end != before.overlapped_.end)
    move.overlapped = TimeSpan{overlapped_.begin - at, overlapped_.end - at};
  return move;
}

void VirtualClock::repeat(const Move& move) {
  const double at = now();
  host_ = move.waited ? at + *move.waited : host_ + move.host;
  loader_ += move.loader;
  if (move.compute) compute_ = at + *move.compute;
  for (const auto& [stream, free] : move.streams) streams_[stream].free = at + free;
  if (move.overlapped) overlapped_ = {at + move.overlapped->begin, at + move.overlapped->end};
}

}  // namespace mbench::sim
