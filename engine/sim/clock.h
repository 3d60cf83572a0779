// The clocks of one simulated rank. Two of them: the host enqueues and pays for every call, the compute
// stream executes in order. What is enqueued starts when both the host has got that far and the stream is
// free; the host waits for the stream only where a real one would.
#pragma once
#include <algorithm>
#include <cmath>

namespace mbench {

// What calls cost the host, in seconds.
struct HostTimes {
  double launch = 0;            // a kernel
  double collective = 0;        // a collective, its bookkeeping in
  double message = 0;           // a send or a receive
  double synchronize = 0;       // a wait for a stream that is idle already
  double micro_batch = 0;       // fetching and unpacking one
  double recompute = 0;         // a checkpointed region
  double step = 0;              // an optimizer step's bookkeeping
  double loader = 0;            // time of the loader, which works beside the host, for a micro batch
  bool messages_block = false;  // the host waits for the device at every message
  double overlap_slowdown = 0;  // of a kernel while a collective runs beside it, as a share of its time
  bool immediate = false;       // no stream: an op has ended when its call returns, as on a CPU
};

struct Interval {
  double begin = 0, end = 0;
};

class VirtualClock {
 public:
  explicit VirtualClock(const HostTimes& times) : times_(times) {}
  const HostTimes& times() const { return times_; }

  // When all that was enqueued will be done.
  double now() const { return std::max(host_, compute_); }
  void host(double seconds) { host_ += seconds; }

  // A kernel of that device time.
  Interval kernel(double seconds) {
    host_ += times_.launch;
    const double begin = now();
    const double beside = std::min(begin + seconds, beside_.end) - std::max(begin, beside_.begin);
    wait_until(begin + seconds + std::max(0.0, beside) * times_.overlap_slowdown);
    return {begin, compute_};
  }
  // A collective that runs beside the kernels to come.
  void overlap(Interval collective) { beside_ = collective; }
  // The stream goes on no earlier than that.
  void wait_until(double time) {
    compute_ = std::max(compute_, time);
    if (times_.immediate) host_ = std::max(host_, compute_);
  }
  // The loader prepares inputs beside all this; over many steps none is shorter than what it takes.
  void begin_step() {
    host_ += times_.step;
    step_ = now();
    loader_ = 0;
  }
  void micro_batch() {
    host_ += times_.micro_batch;
    loader_ += times_.loader;
  }
  // Both vary by some percent from step to step, so near each other the mean of the longer one is more than
  // either: a smooth maximum.
  void wait_for_loader() {
    if (loader_ == 0) return;
    constexpr double kSharpness = 12;
    const double step = now() - step_, longer = std::max(step, loader_), shorter = std::min(step, loader_);
    host_ = std::max(host_,
                     step_ + longer * std::pow(1 + std::pow(shorter / longer, kSharpness), 1 / kSharpness));
  }

  // The host waits for the stream.
  double synchronize() {
    host_ = now() + times_.synchronize;
    compute_ = host_;
    return host_;
  }

 private:
  HostTimes times_;
  double host_ = 0, compute_ = 0;
  double step_ = 0, loader_ = 0;  // when the step began; what its inputs take the loader
  Interval beside_;               // the collective started last that the stream did not wait for
};

}  // namespace mbench
