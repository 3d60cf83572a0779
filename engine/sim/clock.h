// The clocks of one simulated rank: the host enqueues and pays for every call, and each stream of the device executes
// what it was given in order: the compute stream, and one for the collectives of each group, as communicators of NCCL
// have. What is enqueued starts when both the host has got that far and the stream is free; the host waits for the
// compute stream only where a real one would. A stream's name is its track in a trace. Between the device's memory and the
// host's there is a stream of copies for each way, and the host itself may compute, beside all of them.
//
// Whatever moves now() on is charged to a part of the step, so that the parts add up to it.
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
#include "engine/sim/ticks.h"

namespace mbench {

// What calls cost the host, in seconds.
struct HostTimes {
  double launch = 0;                      // a kernel
  double launch_together = 0;             // a kernel while all replicas of a process enqueue theirs
  double collective = 0;                  // a collective, its bookkeeping in
  double message = 0;                     // a send or a receive
  double synchronize = 0;                 // a wait for a stream that is idle already
  ByHostWork work;                        // what no op or collective stands for, each time
  double loader = 0;                      // time of the loader, which works beside the host, for a micro batch
  bool messages_block = false;            // the host waits for the device at every message
  bool loss_blocks = false;               // the host waits for the loss of each micro batch
  bool tensor_collectives_block = false;  // the stream waits for collectives over tp when they are started
  double overlap_slowdown = 0;            // of a kernel while a collective runs beside it, as a share of its time
  bool progress_in_calls = false;         // what was started takes its time where it is waited for
  bool immediate = false;                 // no stream: an op has ended when its call returns, as on a CPU

  // What such work takes each time; 0 of what is no work of the host's alone.
  double of(HostWork kind) const { return changes_clock(kind) ? 0 : work[kind]; }
  // Whether it changes how the clock runs, not only how late it is.
  static bool changes_clock(HostWork work);
};

struct Interval {
  double begin = 0, end = 0;
};

// A collective as the clock of one of its ranks meets it.
struct CollectiveCall {
  int stream = 0;      // of its group
  double seconds = 0;  // from when all ranks have got there
  TimePart part{};
  bool started = false;  // the compute stream does not wait for it yet
  bool over_tp = false;  // whose stream a framework may make wait at once (HostTimes::tensor_collectives_block)
  bool called = true;    // by a call of its own of the host
  bool slows = true;     // the kernels that run while it does
  bool meets = false;    // ranks that do other things: what the stream waits for them is a bubble
  const Interval* behind = nullptr;  // a collective that it begins after, though nothing has waited for that
};

class VirtualClock {
 public:
  explicit VirtualClock(const HostTimes& times) : times_(times) {}
  const HostTimes& times() const { return times_; }

  // When all that was enqueued will be done.
  double now() const { return std::max(host_, compute_); }
  void host(double seconds) {
    const double before = now();
    host_ += seconds;
    charge(TimePart::host, before);
  }
  // Whether all replicas of this process enqueue at once, from now on.
  void together(bool yes) { together_ = yes; }
  // Where the time goes; to nowhere if null.
  void charge_to(TimeByPart* spent) { spent_ = spent; }

  // A kernel of that device time; `called`: by a call of its own.
  Interval kernel(double seconds, TimePart part, bool called = true);
  // A stream for the collectives of a group; its number.
  int add_stream(std::string_view group) {
    streams_.push_back({{Track::communication, group}});
    return static_cast<int>(streams_.size()) - 1;
  }
  const Track& track(int stream) const { return at(stream).track; }
  // The host enqueues a collective: when it could begin, were this the only rank. It waits for the compute stream, for its own and for
  // what it comes behind.
  double enter(const CollectiveCall& call);
  // It begins then, which is when the last rank could: when it runs. The compute stream waits for it, or it overlaps with the kernels
  // to come.
  Interval run(const CollectiveCall& call, double begin);
  // The compute stream waits for a collective that was started.
  void wait_for(Interval collective, TimePart part) {
    if (!times_.progress_in_calls) return wait_until(collective.end, part);
    wait_until(std::max(now(), collective.begin) + (collective.end - collective.begin), part);
  }
  // The compute stream goes on no earlier than that, and what it waits for is that part of the step.
  void wait_until(double time, TimePart part) {
    const double before = now();
    compute_ = std::max(compute_, time);
    if (times_.immediate) host_ = std::max(host_, compute_);
    charge(part, before);
  }
  // The host computes something, of that time.
  Interval host_kernel(double seconds, TimePart part) {
    const double before = now(), begin = times_.immediate ? before : host_;
    host_ = begin + seconds;
    charge(part, before);
    return {begin, host_};
  }
  // A copy between the two memories. Where the device is the host, its processor makes it, and it has ended then.
  Interval start_copy(CopyWay way, double seconds) {
    if (times_.immediate) return kernel(seconds, TimePart::copies);
    host(times_.launch);
    double& free = copies_free_[static_cast<std::size_t>(way)];
    const double begin = std::max(now(), free);
    return {begin, free = begin + seconds};
  }
  // The host goes on no earlier than that.
  void host_waits_until(double time, TimePart part) {
    const double before = now();
    host_ = std::max(host_, time);
    charge(part, before);
  }
  void host_work(HostWork work, int times = 1);
  // The loader prepares inputs beside all this; over many steps none is shorter than what it takes.
  void begin_step() {
    host(times_.work[HostWork::step]);
    step_ = now();
    loader_ = 0;
  }
  void micro_batch() {
    host(times_.work[HostWork::micro_batch]);
    loader_ += times_.loader;
  }
  // Both vary by some percent from step to step, so near each other the mean of the longer one is more than
  // either: a smooth maximum.
  void wait_for_loader() {
    if (loader_ == 0) return;
    const double before = now();
    constexpr double kSharpness = 12;
    const double step = now() - step_, longer = std::max(step, loader_), shorter = std::min(step, loader_);
    host_ = std::max(
        host_, step_ + whole_ticks(longer * std::pow(1 + std::pow(shorter / longer, kSharpness), 1 / kSharpness)));
    charge(TimePart::host, before);
  }

  // How the host and the streams stand to each other. From equal standing the same events cost the same. `idle`: all streams have
  // drained. `behind`: only the compute stream is busy, for longer than the host works before its next wait (`host_work`, seconds).
  enum class Standing { idle, behind, other };
  Standing standing(double host_work) const;
  // What has been done to the clocks since `before`, and doing that to clocks that stand as those did.
  struct Move {
    double host = 0, loader = 0;
    std::optional<double> compute;  // this and what follows: behind now() of the beginning
    std::optional<double> waited;   // the host, which has waited for the stream; in place of `host`
    std::vector<std::pair<std::size_t, double>> streams;
    std::optional<Interval> overlapped;
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
    double free = 0;  // when what it was given will be done
  };
  void charge(TimePart part, double before) {
    if (spent_) mbench::at(*spent_, part) += now() - before;
  }
  Stream& at(int stream) { return streams_[static_cast<std::size_t>(stream)]; }
  const Stream& at(int stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  HostTimes times_;
  TimeByPart* spent_ = nullptr;
  double host_ = 0, compute_ = 0;
  std::vector<Stream> streams_;   // beside the compute stream
  double copies_free_[2] = {};    // by way: when what the stream was given will be done
  std::uint64_t waits_ = 0;       // of the host for the stream
  double step_ = 0, loader_ = 0;  // when the step began; what its inputs take the loader
  bool together_ = false;
  Interval overlapped_;  // the collective started last that the stream did not wait for
};

}  // namespace mbench
