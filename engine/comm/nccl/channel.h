// A communicator of NCCL and the stream that its operations run on: beside the compute stream, so that they
// overlap with it, and of a higher priority.
//
// What NCCL does on the host, meeting the others and opening connections, goes on in the background. It is waited for under the watch's
// deadline: a rank that never comes is a timeout that has a name. For that the communicator of all ranks, from which others
// are split, and those of messages do not block: NCCL has a thread for each of their calls. Those
// of collectives block, which spares a thread for every collective; their calls are made by the watch's own (caller.h).
#pragma once
#include "engine/comm/nccl/watch.h"

namespace mbench {

class Channel {
 public:
  // With the others that come with the same id, not blocking: to split others from. All of them call it at once.
  Channel(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id, int rank, int size);
  // With those ranks of the parent's that give the same color, for collectives. All of the parent's ranks call it at once, those that are in no
  // part by stay_out_of_split(). It has buffers of its own: NCCL would put the operations of communicators that share theirs in
  // one order, and end all of them with one.
  Channel(Channel& parent, const std::string& name, int color, int key);
  static void stay_out_of_split(Channel& parent, const std::string& name);
  // As the first, without waiting for the others: it is not to be used before made() has said so. For messages of two ranks: it
  // has fewer buffers.
  static std::unique_ptr<Channel> begin(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id,
                                        int rank, int size);
  bool made();
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Enqueues an operation after what the compute stream has so far; returns its end.
  template <class Call>
  SharedEvent start(cudaStream_t compute, const std::string& what, const Call& call) {
    need_cuda(cudaEventRecord(ready_, compute), what);
    need_cuda(cudaStreamWaitEvent(stream_, ready_, 0), what);
    // NCCL takes some of its buffers with the first operation. A step that is captured has had one before.
    const std::size_t uncounted = first_ ? watch_->uncounted() : 0;
    watch_->call(
        comm_, [&call, comm = comm_, stream = stream_] { return call(comm, stream); }, what);
    if (first_) watch_->charge(uncounted, "buffers of NCCL");
    first_ = false;
    return watch_->ends(stream_, what);
  }
  // For who waits in another way for what the host does.
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

 private:
  explicit Channel(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  // What to settle. `blocks`: of its kernels at most, 0 for as many as NCCL chooses.
  ncclResult_t join(const std::string& name, const ncclUniqueId& id, int rank, int size, int blocks = 0);
  void open_stream(const std::string& name);
  // Its buffers, to the device.
  void charge();

  std::shared_ptr<Watch> watch_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::size_t uncounted_ = 0;  // before it was made
  bool first_ = true;          // operation
};

}  // namespace mbench
