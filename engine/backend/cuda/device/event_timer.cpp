#include "engine/backend/cuda/device/event_timer.h"

#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {
namespace {

double seconds_between(cudaEvent_t from, cudaEvent_t to) {
  float ms = 0;
  cuda_check("events", cudaEventElapsedTime(&ms, from, to));
  return ms * 1e-3;
}

}  // namespace

EventTimer::~EventTimer() {
  for (const cudaEvent_t e : all_) cudaEventDestroy(e);
}

cudaEvent_t EventTimer::take() {
  if (free_.empty()) {
    cudaEvent_t e = nullptr;
    cuda_check("events", cudaEventCreate(&e));
    all_.push_back(e);
    return e;
  }
  const cudaEvent_t e = free_.back();
  free_.pop_back();
  return e;
}

int EventTimer::begin() {
  Interval s;
  s.begin = take();
  s.end = take();
  cuda_check("events", cudaEventRecord(s.begin, stream_));
  intervals_.push_back(std::move(s));
  return static_cast<int>(intervals_.size()) - 1;
}

void EventTimer::end(int interval, Track track, std::string name, std::array<double*, 2> sums) {
  Interval& s = intervals_[static_cast<std::size_t>(interval)];
  cuda_check("events", cudaEventRecord(s.end, stream_));
  s.track = track;
  s.name = std::move(name);
  s.sums = sums;
  s.ended = true;
}

void EventTimer::anchor() {
  anchor_ = take();
  cuda_check("events", cudaEventRecord(anchor_, stream_));
}

void EventTimer::settle(double time, Timeline* timeline) {
  for (const Interval& s : intervals_) {
    if (s.ended) {
      const double took = seconds_between(s.begin, s.end);
      for (double* sum : s.sums)
        if (sum) *sum += took;
      if (timeline) {
        const double begin = time - seconds_between(s.begin, anchor_);
        timeline->add(s.track, s.name, begin, begin + took);
      }
    }
    free_.push_back(s.begin);
    free_.push_back(s.end);
  }
  intervals_.clear();
  // From anchor to anchor: an event's time has 24 bits, too few for a whole run.
  if (settled_) {
    clock_ += seconds_between(settled_, anchor_);
    free_.push_back(settled_);
  }
  settled_ = anchor_;
}

}  // namespace mbench::cuda
