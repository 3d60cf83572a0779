#include "engine/comm/pulse.h"

#include <algorithm>

namespace mbench::comm {

int Pulse::number_of(const std::string& group) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find(groups_.begin(), groups_.end(), group);
  const auto number = static_cast<int>(found - groups_.begin());
  if (found == groups_.end()) groups_.push_back(group);
  return number;
}

Pulse::Sight Pulse::look() const {
  Sight sight;
  const char* what = nullptr;
  int group = 0;
  // The names belong to the turn if it did not move meanwhile; a rank that moves so fast waits in nothing.
  sight.turn = turn_.load(std::memory_order_acquire);
  if (sight.turn % 2 == 0) return sight;
  what = what_.load(std::memory_order_relaxed);
  group = group_.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (turn_.load(std::memory_order_relaxed) != sight.turn) return {sight.turn + 1, ""};
  const std::scoped_lock lock(mutex_);
  sight.in = what;
  if (group >= 0 && static_cast<std::size_t>(group) < groups_.size())
    sight.in += " of " + groups_[static_cast<std::size_t>(group)];
  return sight;
}

}  // namespace mbench::comm
