// The signs of life of a rank, for whoever started the job: a line of JSON on standard error at a fixed interval. A thread of its own
// writes them, so a rank that computes for long gives them as well.
//
//   {"alive": {"rank": 3, "turn": 812, "in": "all_reduce of dp"}}      "in" is missing outside communication
//   {"alive": {"rank": 3, "ends": true}}                               the last one
//
// A rank that was stopped, or whose host or link is gone, gives none. sweeps/run/rank_watch.h reads them.
#pragma once
#include <functional>
#include <memory>
#include <thread>

#include "engine/comm/pulse.h"

namespace mbench::cli {

class Heartbeat {
 public:
  Heartbeat() = default;
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  // From now on until its end. It is frequent enough that a watch with that limit (seconds) hears several before it gives a rank up.
  void start(std::shared_ptr<const comm::Pulse> pulse, int rank, double limit_s);

 private:
  int rank_ = -1;
  std::jthread thread_;
};

// For a job that nobody watches. Once this rank has been in one communication for longer than the limit, `give_up` is called with its
// name, from a separate thread. Ends with the object.
class Deadline {
 public:
  Deadline() = default;
  void start(std::shared_ptr<const comm::Pulse> pulse, double limit_s,
             std::function<void(const std::string& in)> give_up);

 private:
  std::jthread thread_;
};

}  // namespace mbench::cli
