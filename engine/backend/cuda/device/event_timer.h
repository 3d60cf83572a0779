// Times intervals of a stream by CUDA events. The host begins and ends them as it enqueues; times are known once the stream has run.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <string>
#include <vector>

#include "engine/device/timeline.h"

namespace mbench::cuda {

class EventTimer {
 public:
  explicit EventTimer(cudaStream_t stream) : stream_(stream) {}
  ~EventTimer();
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  int begin();
  // Its time is added to each of `sums` that is not null. If all are null, the interval is for the trace only.
  void end(int interval, Track track, std::string name, std::array<double*, 2> sums);
  // A point of the stream for which the host's clock will be known. It must be enqueued last, before a wait.
  void anchor();
  // After the wait: adds every interval to its sums and to the timeline, if there is one. `time`: when the anchor passed, on the host's
  // clock.
  void settle(double time, Timeline* timeline);
  // Of the last settled anchor: seconds since the first one, by the stream's own clock.
  double clock() const { return clock_; }

 private:
  struct Interval {
    cudaEvent_t begin, end;
    Track track = Track::compute;
    std::string name;
    std::array<double*, 2> sums{};
    bool ended = false;
  };
  cudaEvent_t take();
  cudaStream_t stream_;
  std::vector<Interval> intervals_;
  std::vector<cudaEvent_t> all_, free_;
  cudaEvent_t anchor_ = nullptr, settled_ = nullptr;  // this wait's and the last one's
  double clock_ = 0;
};

}  // namespace mbench::cuda
