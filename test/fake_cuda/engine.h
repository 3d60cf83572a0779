// The order in which a fake GPU works. Each stream is a queue whose head may run. One thread runs the heads in an order drawn from the
// seed, as late as the seed says. Whatever CUDA's rules leave open, it does sometime: a missing wait shows as a wrong result.
#pragma once
#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <random>
#include <string>

namespace fake_cuda {

// What one look at the head of a queue came to.
enum class Step { done, blocked };
using Work = std::function<Step()>;

class Capture;  // capture.h

struct Queue {
  std::deque<Work> works;           // the first may be running
  std::deque<std::uint64_t> turns;  // of each: how many were given to the GPU before it
  int connection = -1;              // hardware queue, whose works begin in the order of their turns; -1: one of its own
  bool blocked = false;             // when last looked at
  std::shared_ptr<Capture> capture;  // where what is enqueued goes instead; asked only by the host
};

// One recording of an event. An event may be recorded again, in another stream too, before its earlier recording has passed. Who waits
// for the earlier one goes on waiting for it.
struct Recording {
  std::atomic<bool> passed{false};
  std::atomic<double> time{0};       // when it passed, seconds
  std::shared_ptr<Capture> capture;  // that it is part of, and passes in no stream then
};

double now();

class Engine {
 public:
  static Engine& get();

  // `of_a_stream`: it shares one of the CUDA_DEVICE_MAX_CONNECTIONS hardware queues.
  std::shared_ptr<Queue> new_queue(bool of_a_stream = false);
  void enqueue(const std::shared_ptr<Queue>& queue, Work work);
  // Whether it is empty. The answer "no" may take a moment, in which the GPU gets on.
  bool idle(const std::shared_ptr<Queue>& queue);
  // The next three return when the condition holds or a fault has stopped the GPU.
  void wait_idle(const std::shared_ptr<Queue>& queue);
  void wait_all();
  void wait_for(const Recording& recording);

  // A fault while work ran: nothing runs any more, and every call returns it.
  void stop(cudaError_t code);
  cudaError_t fault() const { return fault_; }

 private:
  void run();
  bool patient() const;
  std::shared_ptr<Queue> choose();
  bool is_next_of_its_connection(const Queue& queue) const;
  template <class Condition>
  void wait(const Condition& condition);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<Queue>> queues_;
  std::atomic<cudaError_t> fault_{cudaSuccess};
  std::mt19937_64 draw_;
  bool lazy_ = false;
  int favour_ = 0;  // 0: none, 1: the oldest stream, 2: the newest
  bool started_ = false;
  int streams_ = 0;
  std::uint64_t given_ = 0;
  int waiting_ = 0;        // threads of the host
  double last_asked_ = 0;  // when the host last looked
  double last_given_ = 0;  // when it last enqueued
};

}  // namespace fake_cuda
