// When a file that grows with every row is written again: after a second, and after ten times the duration of the last write. So
// writing stays a small share of the time, however large the file becomes.
#pragma once
#include <algorithm>
#include <chrono>

namespace mbench::sweeps {

class WriteSchedule {
 public:
  using Clock = std::chrono::steady_clock;
  explicit WriteSchedule(Clock::time_point start) : next_(start + kLeast) {}
  bool is_due(Clock::time_point now) const { return now >= next_; }
  void wrote(Clock::time_point began, Clock::time_point ended) {
    next_ = ended + std::max<Clock::duration>(kLeast, 10 * (ended - began));
  }

 private:
  static constexpr std::chrono::seconds kLeast{1};
  Clock::time_point next_;
};

}  // namespace mbench::sweeps
