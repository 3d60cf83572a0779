// A communicator of NCCL and the stream that its operations run on. It overlaps with the compute stream, and has a
// higher priority.
//
// What NCCL does on the host, meeting the others and opening connections, goes on in the background. The host waits for
// it up to the watch's deadline: a rank that never comes is a timeout with a name. For that the communicator of all
// ranks, from which others are split, and those of messages do not block. NCCL has a thread for each of their calls.
// Those of collectives block, which saves a thread for every collective; the watch's own thread makes their calls
// (caller.h).
#pragma once
#include "engine/comm/nccl/watch.h"

namespace mbench::comm {

class Channel {
 public:
  // Joins the others that come with the same id. Does not block: others are split from it. All of them call it at once.
  Channel(std::shared_ptr<Watch> watch, const std::string& name, const ncclUniqueId& id, int rank, int size);
  // Joins the parent's ranks that give the same color, for collectives. All of the parent's ranks call it at once;
  // those that are in no part call stay_out_of_split(). It has buffers of its own: NCCL puts the operations of
  // communicators that share buffers in one order, and ends all with one.
  Channel(Channel& parent, const std::string& name, int color, int key);
  static void stay_out_of_split(Channel& parent, const std::string& name);
  // As the first, without waiting for the others: not to be used before made() returns true. For messages of two ranks:
  // it has fewer buffers.
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
  // For callers that wait in another way for NCCL's work on the host.
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }

 private:
  explicit Channel(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  // Returns the code to settle. `blocks`: the most blocks of its kernels, 0 for as many as NCCL chooses.
  ncclResult_t join(const std::string& name, const ncclUniqueId& id, int rank, int size, int blocks = 0);
  void open_stream(const std::string& name);
  // Charges its buffers to the device.
  void charge();

  std::shared_ptr<Watch> watch_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::size_t uncounted_ = 0;  // before it was made
  bool first_ = true;          // operation
};

}  // namespace mbench::comm
