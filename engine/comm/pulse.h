// Which communication a rank is in, for another thread to see. The watcher of a job sees whether the rank still
// advances, and what it waits in if not. Written by the one thread that communicates, a few stores for each
// communication; read by any.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

namespace mbench::comm {

class Pulse {
 public:
  struct Sight {
    std::uint64_t turn = 0;  // moves whenever a communication begins or ends
    std::string in;          // "all_reduce of dp"; empty while the rank is in none
    bool operator==(const Sight&) const = default;
  };
  Sight look() const;

  // The number of a group's name, for In.
  int number_of(const std::string& group);

  // The communication that the rank is in, from construction to end. `what` outlives the pulse. One within another counts as
  // the outer one. `pulse` may be null.
  class In {
   public:
    In(Pulse* pulse, const char* what, int group) : pulse_(pulse) {
      if (pulse_) pulse_->enter(what, group);
    }
    ~In() {
      if (pulse_) pulse_->leave();
    }
    In(const In&) = delete;
    In& operator=(const In&) = delete;

   private:
    Pulse* pulse_;
  };

 private:
  void enter(const char* what, int group) {
    if (depth_++ > 0) return;
    what_.store(what, std::memory_order_relaxed);
    group_.store(group, std::memory_order_relaxed);
    move();
  }
  void leave() {
    if (--depth_ == 0) move();
  }
  void move() { turn_.store(turn_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  int depth_ = 0;                       // only of the writing thread
  std::atomic<std::uint64_t> turn_{0};  // odd within a communication
  std::atomic<const char*> what_{nullptr};
  std::atomic<int> group_{0};
  mutable std::mutex mutex_;
  std::deque<std::string> groups_;  // names, under the mutex
};

}  // namespace mbench::comm
