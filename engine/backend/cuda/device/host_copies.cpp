#include "engine/backend/cuda/device/host_copies.h"

#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {

// The event at its end; before that, the one at its beginning.
class HostCopies::Copy final : public HostCopy {
 public:
  explicit Copy(const HostCopies& copies) : copies_(copies) {
    cuda_check("copy", cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~Copy() override { cudaEventDestroy(event_); }
  void wait() override {
    const int interval = copies_.device_.begin_interval();
    cuda_check("copy", cudaStreamWaitEvent(copies_.compute_, event_, 0));
    copies_.device_.end_interval(interval, Track::communication, "wait for a copy", TimePart::copies, nullptr);
  }
  void wait_on_host() override { copies_.wait_(event_); }
  cudaEvent_t event() const { return event_; }

 private:
  const HostCopies& copies_;
  cudaEvent_t event_ = nullptr;
};

HostCopies::~HostCopies() {
  for (const Stream& stream : streams_) cudaStreamSynchronize(stream.get());
}

std::unique_ptr<HostCopy> HostCopies::start(CopyWay way, const Tensor& from, const Tensor& to) {
  auto copy = std::make_unique<Copy>(*this);
  const cudaStream_t stream = streams_[static_cast<std::size_t>(way)].get();
  cuda_check("copy", cudaEventRecord(copy->event(), compute_));
  cuda_check("copy", cudaStreamWaitEvent(stream, copy->event(), 0));
  const bool to_host = way == CopyWay::to_host;
  const cudaMemcpyKind kind = to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  for (std::size_t done = 0; done < from.bytes();) {
    const std::byte* on_host = (to_host ? to : from).data() + done;
    const std::size_t n = memory_.in_one_piece(on_host, from.bytes() - done);
    cuda_check("copy", cudaMemcpyAsync(to.data() + done, from.data() + done, n, kind, stream));
    done += n;
  }
  cuda_check("copy", cudaEventRecord(copy->event(), stream));
  return copy;
}

}  // namespace mbench::cuda
