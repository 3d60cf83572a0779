#include "test/engine/sim/threaded/network.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench {

SimNetwork::SimNetwork(int stages, int ranks_per_stage)
    : stages_(stages),
      ranks_per_stage_(ranks_per_stage),
      woken_(static_cast<std::size_t>(stages)),
      waiting_(static_cast<std::size_t>(stages), false),
      gone_(static_cast<std::size_t>(stages), false) {}

// Sleeps until `ready`. Whoever makes a stage ready wakes it, so when the last one falls asleep nothing can
// change any more.
template <class Ready, class Hopeless>
void SimNetwork::wait(std::unique_lock<std::mutex>& lock, int stage, const Ready& ready, const Hopeless& hopeless) {
  while (!ready()) {
    if (hopeless()) throw Stopped();
    if (stuck_) fail(ErrorKind::internal, "sim", "every stage waits for another");
    waiting_[stage] = true;
    if (++idle_ == stages_) {
      stuck_ = true;
      for (int s = 0; s < stages_; ++s) wake(s);
    }
    woken_[stage].wait(lock, [&] { return !waiting_[stage]; });
  }
}

void SimNetwork::wake(int stage) {
  if (!waiting_[stage]) return;
  waiting_[stage] = false;
  --idle_;
  woken_[stage].notify_one();
}

void SimNetwork::send(int group, int from, int to, int tag, double time) {
  const std::lock_guard lock(mutex_);
  messages_[{group, from, to, tag}].push_back(time);
  wake(to);
}

double SimNetwork::receive(int group, int from, int to, int tag) {
  std::unique_lock lock(mutex_);
  const Key key{group, from, to, tag};
  std::deque<double>* queue = nullptr;
  wait(
      lock, to,
      [&] {
        const auto it = messages_.find(key);
        queue = it == messages_.end() ? nullptr : &it->second;
        return queue != nullptr;
      },
      [&] { return static_cast<bool>(gone_[from]); });
  const double time = queue->front();
  queue->pop_front();
  if (queue->empty()) messages_.erase(key);
  return time;
}

std::vector<SimNetwork::Bytes> SimNetwork::meet(int group, const std::vector<int>& stages, int me, Bytes mine) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = meetings_[group];
  const auto nobody_left = [&] { return meeting.to_leave == 0; };
  const auto someone_gone = [&] {
    return std::any_of(stages.begin(), stages.end(), [&](int s) { return gone_[s] && meeting.arrived.count(s) == 0; });
  };
  wait(lock, me, nobody_left, someone_gone);  // those of the round before have all read its result
  meeting.arrived[me] = std::move(mine);
  if (meeting.arrived.size() == stages.size()) {
    meeting.result.clear();
    for (const int s : stages) meeting.result.push_back(std::move(meeting.arrived[s]));
    meeting.arrived.clear();
    meeting.to_leave = static_cast<int>(stages.size());
    ++meeting.round;
    for (const int s : stages) wake(s);
  } else {
    const std::uint64_t round = meeting.round;
    wait(
        lock, me, [&] { return meeting.round != round; }, someone_gone);
  }
  const auto result = meeting.result;
  if (--meeting.to_leave == 0)
    for (const int s : stages) wake(s);
  return result;
}

void SimNetwork::leave(int stage) {
  const std::lock_guard lock(mutex_);
  gone_[stage] = true;
  ++idle_;
  for (int s = 0; s < stages_; ++s) wake(s);
}

}  // namespace mbench
