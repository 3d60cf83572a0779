// A communicator of NCCL and the stream that its operations run on: beside the compute stream, so that they
// overlap with it, and of a higher priority.
//
// Communicators are non-blocking: what NCCL does on the host (meeting the others, opening connections) goes
// on in the background and is waited for under the watch's deadline, so a rank that never comes is a timeout
// that has a name, not a call that does not return.
#pragma once
#include "engine/comm/nccl/watch.h"

namespace mbench {

class Channel {
 public:
  // With the others that come with the same id. All of them call it at once.
  Channel(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id, int rank, int size);
  // With those ranks of the parent's that give the same color; it shares the parent's buffers. All of the parent's
  // ranks call it at once, those that are in no part by stay_out_of_split().
  Channel(Channel& parent, const std::string& name, int color, int key);
  static void stay_out_of_split(Channel& parent, const std::string& name);
  // As the first, without waiting for the others: it is not to be used before made() has said so.
  static std::unique_ptr<Channel> begin(std::shared_ptr<Watch> watch, const std::string& name,
                                        const ncclUniqueId& id, int rank, int size);
  bool made() { return watch_->done(comm_, ncclInProgress, "making a channel"); }
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Enqueues an operation after what the compute stream has so far; returns its end.
  template <class Call>
  SharedEvent start(cudaStream_t compute, const std::string& what, const Call& call) {
    need_cuda(cudaEventRecord(ready_, compute), what);
    need_cuda(cudaStreamWaitEvent(stream_, ready_, 0), what);
    watch_->settle(comm_, call(comm_, stream_), what);
    return watch_->ends(stream_, what);
  }
  // For who waits in another way for what the host does.
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

 private:
  explicit Channel(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  // What to settle.
  ncclResult_t join(const std::string& name, const ncclUniqueId& id, int rank, int size);
  void open_stream(const std::string& name);

  std::shared_ptr<Watch> watch_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
};

}  // namespace mbench
