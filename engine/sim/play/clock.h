// The clocks of one simulated rank. The host enqueues and pays for every call, and each stream of the device executes its calls in
// order. There is the compute stream, and one for the collectives of each group, as with communicators of NCCL. A call starts when the
// host has got to it and its stream is free. The host waits for the compute stream only where a real one would.
//
// A stream's name is its track in a trace. There is a stream of copies for each direction between the device's memory and the host's.
// The host itself may compute, overlapped with all of them.
//
// Whatever advances now() is charged to a part of the step, so the parts add up to the step.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/host_work.h"
#include "engine/base/time_part.h"
#include "engine/device/host_copy.h"
#include "engine/device/timeline.h"
#include "engine/sim/play/ticks.h"

namespace mbench::sim {

// What calls cost the host, in seconds.
struct HostTimes {
  double launch = 0;                      // a kernel
  double launch_together = 0;             // a kernel while all replicas of a process enqueue theirs
  double collective = 0;                  // a collective, with its bookkeeping
  double message = 0;                     // a send or a receive
  double graph_node = 0;                  // an op or a collective of a captured part, whose graph has been launched
  double synchronize = 0;                 // a wait for a stream that is idle already
  ByHostWork work;                        // work that belongs to no op or collective, each time
  double loader = 0;                      // of the loader for a micro batch, overlapped with the host
  bool messages_block = false;            // the host waits for the device at every message
  bool receives_ahead = false;            // a receive is posted before the action ahead of its own
  bool loss_blocks = false;               // the host waits for the loss of each micro batch
  bool tensor_collectives_block = false;  // the stream waits for collectives over tp when they are started
  double overlap_slowdown = 0;            // of a kernel while a collective overlaps it, as a share of its time
  bool progress_in_calls = false;         // what was started takes its time only where it is waited for
  bool immediate = false;                 // no stream: an op has ended when its call returns, as on a CPU

  double kernel_within(bool graph) const { return graph ? graph_node : launch; }
  double collective_within(bool graph) const { return graph ? graph_node : collective; }
  // What such work takes each time; 0 for work that is not only the host's. `graph`: whether it is within a captured part, which the
  // work may begin or end.
  double of(HostWork kind, bool& graph) const;
  // Whether it changes how the clock runs, and does not only delay it.
  static bool changes_clock(HostWork work);
};

struct TimeSpan {
  double begin = 0, end = 0;
};

// A collective as the clock of one of its ranks sees it.
struct CollectiveCall {
  int stream = 0;      // of its group
  double seconds = 0;  // from when all ranks have arrived
  TimePart part{};
  bool started = false;  // the compute stream does not wait for it yet
  bool over_tp = false;  // a framework may make the stream wait for it at once (HostTimes::tensor_collectives_block)
  bool called = true;    // by a host call of its own
  bool slows = true;     // slows the kernels that overlap it
  bool meets = false;    // its ranks do different things: the stream's wait for them is a bubble
  const TimeSpan* behind = nullptr;  // a collective that it begins after, even if nothing has waited for that one
};

class VirtualClock {
 public:
  explicit VirtualClock(const HostTimes& times) : times_(times) {}
  const HostTimes& times() const { return times_; }

  // When all work that was enqueued will be done.
  double now() const { return std::max(host_, compute_); }
  void host(double seconds) {
    const double before = now();
    host_ += seconds;
    charge(TimePart::host, before);
  }
  // Whether all replicas of this process enqueue at once, from now on.
  void together(bool yes) { together_ = yes; }
  // Where time is charged to; nowhere if null.
  void charge_to(TimeByPart* spent) { spent_ = spent; }

  // A kernel of that device time. `called`: by a host call of its own.
  TimeSpan kernel(double seconds, TimePart part, bool called = true);
  // Adds a stream for the collectives of a group, and returns its number.
  int add_stream(std::string_view group) {
    streams_.push_back({{Track::communication, group}});
    return static_cast<int>(streams_.size()) - 1;
  }
  const Track& track(int stream) const { return at(stream).track; }
  // The host enqueues a collective. Returns when it could begin, were this the only rank. It waits for the compute stream, for its own
  // stream and for `behind`.
  double enter(const CollectiveCall& call);
  // The collective begins at `begin`, when the last rank could. Returns its interval. The compute stream waits for it, or it overlaps
  // with the kernels to come.
  TimeSpan run(const CollectiveCall& call, double begin);
  // The compute stream waits for a collective that was started.
  void wait_for(TimeSpan collective, TimePart part) {
    if (!times_.progress_in_calls) return wait_until(collective.end, part);
    wait_until(std::max(now(), collective.begin) + (collective.end - collective.begin), part);
  }
  // The compute stream goes on no earlier than `time`, and its wait is charged to `part`.
  void wait_until(double time, TimePart part) {
    const double before = now();
    compute_ = std::max(compute_, time);
    if (times_.immediate) host_ = std::max(host_, compute_);
    charge(part, before);
  }
  // A message from another stage, where it left at `left`. Returns when it travels: from when it has left and its receive is posted.
  TimeSpan receive(double left, double seconds, TimePart part) {
    wait_until(left, TimePart::bubble);
    const double begin = times_.receives_ahead ? std::max(left, posted_) : now();
    wait_until(begin + seconds, part);
    if (times_.messages_block) synchronize();
    posted_ = now();
    return {begin, begin + seconds};
  }
  // The host computes for that time.
  TimeSpan host_kernel(double seconds, TimePart part) {
    const double before = now(), begin = times_.immediate ? before : host_;
    host_ = begin + seconds;
    charge(part, before);
    return {begin, host_};
  }
  // A copy between the two memories. Where the device is the host, its processor makes the copy, which has ended at the return.
  TimeSpan start_copy(CopyWay way, double seconds) {
    if (times_.immediate) return kernel(seconds, TimePart::copies);
    host(times_.launch);
    double& free = copies_free_[static_cast<std::size_t>(way)];
    const double begin = std::max(now(), free);
    return {begin, free = begin + seconds};
  }
  // The host goes on no earlier than `time`.
  void host_waits_until(double time, TimePart part) {
    const double before = now();
    host_ = std::max(host_, time);
    charge(part, before);
  }
  void host_work(HostWork work, int times = 1);
  // The loader prepares inputs overlapped with all this. On average over many steps none is shorter than the loader's time.
  void begin_step() {
    host(times_.work[HostWork::step]);
    step_ = now();
    loader_ = 0;
  }
  void micro_batch() {
    host(times_.work[HostWork::micro_batch]);
    loader_ += times_.loader;
  }
  // Both times vary by some percent from step to step. So where they are close, the average of the longer one is more than either: a
  // smooth maximum.
  void wait_for_loader() {
    if (loader_ == 0) return;
    const double before = now();
    constexpr double kSharpness = 12;
    const double step = now() - step_, longer = std::max(step, loader_), shorter = std::min(step, loader_);
    host_ = std::max(
        host_, step_ + whole_ticks(longer * std::pow(1 + std::pow(shorter / longer, kSharpness), 1 / kSharpness)));
    charge(TimePart::host, before);
  }

  // How the host and the streams stand relative to each other. From equal standing the same events cost the same. `idle`: all streams
  // have drained. `behind`: only the compute stream is busy, for longer than the host works before its next wait (`host_work`,
  // seconds).
  enum class Standing { idle, behind, other };
  Standing standing(double host_work) const;
  // What events did to the clocks since `before`. repeat() does the same to clocks of the same standing.
  struct Move {
    double host = 0, loader = 0;
    std::optional<double> compute;  // this and what follows: relative to now() at the beginning
    std::optional<double> waited;   // of the host, which has waited for the stream; in place of `host`
    std::vector<std::pair<std::size_t, double>> streams;
    std::optional<TimeSpan> overlapped;
  };
  Move since(const VirtualClock& before) const;
  void repeat(const Move& move);

  // The host waits for the stream.
  double synchronize() {
    const double before = now();
    host_ = before + times_.synchronize;
    compute_ = host_;
    ++waits_;
    charge(TimePart::host, before);
    return host_;
  }

 private:
  struct Stream {
    Track track;
    double free = 0;  // when its calls so far will be done
  };
  void charge(TimePart part, double before) {
    if (spent_) mbench::at(*spent_, part) += now() - before;
  }
  Stream& at(int stream) { return streams_[static_cast<std::size_t>(stream)]; }
  const Stream& at(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  HostTimes times_;
  TimeByPart* spent_ = nullptr;
  double host_ = 0, compute_ = 0;
  std::vector<Stream> streams_;   // without the compute stream
  double posted_ = 0;             // when a message came last: the next is posted before what follows is computed
  double copies_free_[2] = {};    // by direction: when the stream's copies so far will be done
  std::uint64_t waits_ = 0;       // of the host for the stream
  double step_ = 0, loader_ = 0;  // when the step began; the loader's time for its inputs
  bool together_ = false, in_graph_ = false;
  TimeSpan overlapped_;  // the collective started last that the stream did not wait for
};

}  // namespace mbench::sim
