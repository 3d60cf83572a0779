// Copies between a GPU's memory and page-locked memory of its host. Each direction has a stream next to the compute stream.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "engine/backend/cuda/device/pinned_memory.h"
#include "engine/backend/cuda/device/stream.h"
#include "engine/device/host_copy.h"
#include "engine/device/stream_device.h"
#include "engine/device/tensor.h"

namespace mbench::cuda {

class HostCopies {
 public:
  // `wait` returns when an event has passed, or throws where it never will. The time that the compute stream waits is added to the device's
  // meter.
  HostCopies(StreamDevice& device, cudaStream_t compute, const PinnedMemory& memory,
             std::function<void(cudaEvent_t)> wait)
      : device_(device), compute_(compute), memory_(memory), wait_(std::move(wait)) {}
  // Waits for running copies.
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // Starts after all that the compute stream has been given so far.
  std::unique_ptr<HostCopy> start(CopyWay way, const Tensor& from, const Tensor& to);

 private:
  class Copy;
  StreamDevice& device_;
  cudaStream_t compute_;
  const PinnedMemory& memory_;
  std::function<void(cudaEvent_t)> wait_;
  Stream streams_[2];  // by way
};

}  // namespace mbench::cuda
