#include "engine/backend/cuda/device/staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {

Staging::Staging(cudaStream_t stream, Allocator& memory, std::function<void(cudaEvent_t)> wait)
    : stream_(stream), charged_(memory), wait_(std::move(wait)) {
  charged_.resize(kBuffers * kSlotBytes, "slots of inputs");
  void* slots = nullptr;
  cuda_check("staging", cudaMalloc(&slots, kBuffers * kSlotBytes));
  slots_ = static_cast<std::byte*>(slots);
  std::byte* slot = slots_;
  for (Buffer& b : buffers_) {
    void* data = nullptr;
    cuda_check("staging", cudaMallocHost(&data, kBytes));
    b.data = static_cast<std::byte*>(data);
    b.slot = std::exchange(slot, slot + kSlotBytes);
    for (cudaEvent_t* e : {&b.free, &b.drained})
      cuda_check("staging", cudaEventCreateWithFlags(e, cudaEventDisableTiming));
  }
}

Staging::~Staging() {
  cudaStreamSynchronize(link_.get());
  for (const Buffer& b : buffers_) {
    for (const cudaEvent_t e : {b.free, b.drained})
      if (e) cudaEventDestroy(e);
    if (b.data) cudaFreeHost(b.data);
  }
  cudaFree(slots_);
}

// A buffer that no copy uses any more. An event that was never recorded counts as passed.
Staging::Buffer& Staging::next() {
  Buffer& b = buffers_[turn_++ % buffers_.size()];
  wait_(b.free);
  return b;
}

void Staging::upload_aside(std::byte* to, std::span<const std::byte> from) {
  for (std::size_t done = 0; done < from.size();) {
    const std::size_t n = std::min(kSlotBytes, from.size() - done);
    Buffer& b = next();
    std::memcpy(b.data, from.data() + done, n);
    cuda_check("write", cudaStreamWaitEvent(link_.get(), b.drained, 0));
    cuda_check("write", cudaMemcpyAsync(b.slot, b.data, n, cudaMemcpyHostToDevice, link_.get()));
    cuda_check("write", cudaEventRecord(b.free, link_.get()));
    cuda_check("write", cudaStreamWaitEvent(stream_, b.free, 0));
    cuda_check("write", cudaMemcpyAsync(to + done, b.slot, n, cudaMemcpyDeviceToDevice, stream_));
    cuda_check("write", cudaEventRecord(b.drained, stream_));
    done += n;
  }
}

void Staging::upload(std::byte* to, std::span<const std::byte> from) {
  if (from.size() <= kSmall) return upload_aside(to, from);
  for (std::size_t done = 0; done < from.size();) {
    const std::size_t n = std::min(kBytes, from.size() - done);
    Buffer& b = next();
    std::memcpy(b.data, from.data() + done, n);
    cuda_check("write", cudaMemcpyAsync(to + done, b.data, n, cudaMemcpyHostToDevice, stream_));
    cuda_check("write", cudaEventRecord(b.free, stream_));
    done += n;
  }
}

void Staging::download(const std::byte* from, std::span<std::byte> to) {
  // One copy is under way while the one before it is taken out of its buffer.
  const auto start = [&](std::size_t at) {
    const std::size_t n = std::min(kBytes, to.size() - at);
    Buffer& b = next();
    cuda_check("read", cudaMemcpyAsync(b.data, from + at, n, cudaMemcpyDeviceToHost, stream_));
    cuda_check("read", cudaEventRecord(b.free, stream_));
    return &b;
  };
  Buffer* under_way = to.empty() ? nullptr : start(0);
  for (std::size_t done = 0; done < to.size(); done += kBytes) {
    Buffer* const mine = under_way;
    if (done + kBytes < to.size()) under_way = start(done + kBytes);
    wait_(mine->free);
    std::memcpy(to.data() + done, mine->data, std::min(kBytes, to.size() - done));
  }
}

}  // namespace mbench::cuda
