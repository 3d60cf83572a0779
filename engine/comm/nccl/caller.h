// A thread that calls NCCL in place of the host's. A blocking communicator launches within the call; one that does not
// block starts a thread for every operation. But a blocking call may not return before other ranks come, as at its
// first operation, which opens connections. The host's thread meanwhile looks at the clock and gets on with messages.
#pragma once
#include <nccl.h>

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>

namespace mbench::comm {

class Caller {
 public:
  // The thread uses the GPU that is current here.
  Caller();
  // Abandons a call that does not return.
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // Starts a call; one at a time.
  void start(std::function<ncclResult_t()> call);
  bool returned() const;
  bool busy() const { return shared_->state.load() == asked; }
  // What the call gave or threw, once it has returned.
  ncclResult_t result();

 private:
  enum State : int { idle, asked, answered, quit };
  // Shared by both threads: the one that calls may outlive this object.
  struct Shared {
    std::atomic<int> state{idle};
    std::function<ncclResult_t()> call;
    ncclResult_t result = ncclSuccess;
    std::exception_ptr error;
  };
  static void serve(Shared& shared, int gpu);

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace mbench::comm
