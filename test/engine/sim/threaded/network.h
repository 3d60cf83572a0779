// What the simulated ranks of a job share: their messages and their meetings. One rank for each pipeline stage runs in a thread of its
// own. It stands for all tensor- and data-parallel peers of that stage, which do the same at the same virtual time. Threads wait for
// each other only here, for a named partner. Time is virtual, so the result does not depend on how the threads are scheduled.
#pragma once
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace mbench {

class SimNetwork {
 public:
  SimNetwork(int stages, int ranks_per_stage);

  int stages() const { return stages_; }
  int stage_of(int rank) const { return rank / ranks_per_stage_; }

  // A message of `tag` within a group leaves `from` for `to` at `time`. Messages of a tag keep their order. `group`: its number among those
  // that every rank makes.
  void send(int group, int from, int to, int tag, double time);
  // When that message left. Waits for it; throws Stopped if its sender has ended, and an internal error if all wait.
  double receive(int group, int from, int to, int tag);

  // All `stages` of a group meet, each with its bytes. Each gets all bytes, in the order of `stages`.
  using Bytes = std::vector<std::byte>;
  std::vector<Bytes> meet(int group, const std::vector<int>& stages, int me, Bytes mine);

  // The stage ends, with or without success. Those that wait for it are stopped.
  void leave(int stage);

  // Thrown where a partner has ended; the partner reports the reason.
  struct Stopped {};

 private:
  struct Meeting {
    std::map<int, Bytes> arrived;
    std::vector<Bytes> result;
    int to_leave = 0;
    std::uint64_t round = 0;
  };
  using Key = std::array<int, 4>;  // group, from, to, tag

  template <class Ready, class Hopeless>
  void wait(std::unique_lock<std::mutex>& lock, int stage, const Ready& ready, const Hopeless& hopeless);
  void wake(int stage);

  int stages_, ranks_per_stage_;
  std::mutex mutex_;
  std::vector<std::condition_variable> woken_;  // by stage
  std::vector<bool> waiting_, gone_;
  int idle_ = 0;  // stages that wait or have left
  bool stuck_ = false;
  std::map<Key, std::deque<double>> messages_;
  std::map<int, Meeting> meetings_;  // by group
};

}  // namespace mbench
