// What NCCL has in flight on this rank, in the order it was enqueued. While the host waits, it finds out whether NCCL
// failed or hangs, and where.
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/nccl/caller.h"
#include "engine/device/allocator.h"

namespace mbench::comm {

void need_cuda(cudaError_t code, std::string_view where);
void need_nccl(ncclResult_t code, std::string_view where,
               std::string_view call);  // "in progress" is no success

// An event of CUDA; its last owner gives it back for another use.
using SharedEvent = std::shared_ptr<CUevent_st>;

class Watch {
 public:
  // What NCCL takes of the GPU's memory is charged to `memory`, the device's.
  Watch(double deadline, Allocator& memory);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void add(ncclComm_t comm, std::string name);
  // Destroys a communicator that was added: in order with its peers, or at once.
  void end(ncclComm_t comm, bool orderly) noexcept;
  // Waits until the call on `comm` that gave `code` is done as far as the host goes; throws if it fails, or
  // after the deadline. `what` is what the call was for.
  void settle(ncclComm_t comm, ncclResult_t code, std::string_view what);
  // Makes a call on `comm`, which may block, in another thread and waits as settle() does. Where it throws, the call has returned, or
  // hangs within NCCL in spite of the abort.
  void call(ncclComm_t comm, std::function<ncclResult_t()> call, std::string_view what);
  // One look: whether the host's part of the call that gave `code` is done. Throws if it has failed.
  bool done(ncclComm_t comm, ncclResult_t code, std::string_view what);
  // Throws where `waited` is longer than the deadline.
  void check_wait(double waited, std::string_view what);
  // `work` is called wherever the host waits, for what goes on in the background.
  void meanwhile(std::function<void()> work) { meanwhile_ = std::move(work); }
  // A point of the stream.
  SharedEvent mark(cudaStream_t stream);
  // Records on the stream that `what` ends there.
  SharedEvent ends(cudaStream_t stream, std::string what);
  // Bytes of the GPU that are neither the arena's nor charged to anybody: what a library takes shows as a difference.
  std::size_t uncounted() const;
  // Charges what has become uncounted since uncounted() was `before`.
  void charge(std::size_t before, std::string_view what);
  // Throws if a communicator has failed, or if the host has waited longer than the deadline and something has
  // not ended. Every communicator is aborted then: none of them can be used or destroyed in order any more.
  void check(double waited);
  bool aborted() const { return aborted_; }

 private:
  struct Comm {
    ncclComm_t comm;
    std::string name;
  };
  struct UnderWay {
    std::string what;
    SharedEvent end;
  };
  void forget_ended();
  void abort();
  [[noreturn]] void give_up(std::string_view what, double waited);
  [[noreturn]] void failed(ncclComm_t comm, ncclResult_t code, std::string_view what);

  double deadline_;
  Allocator& memory_;
  std::size_t buffers_ = 0;  // charged to it; not given back, for the device may end before
  bool aborted_ = false;
  Caller caller_;
  std::function<void()> meanwhile_;
  std::vector<Comm> comms_;
  std::vector<cudaEvent_t> spare_;
  std::deque<UnderWay> under_way_;
};

}  // namespace mbench::comm
