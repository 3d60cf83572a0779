// What kernels are enqueued on: a CUDA stream, and memory in which one kernel of an op leaves data for the next (partial sums). That memory
// only grows, in stream order: a running op keeps what it uses, and after the first step nothing is allocated. It lies outside the engine's
// arena and counts as library memory.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "engine/backend/cuda/device/launch.h"
#include "engine/device/library_memory.h"

namespace mbench::cuda {

class KernelStream {
 public:
  KernelStream(cudaStream_t stream, Allocator& memory) : stream_(stream), charged_(memory) {}
  // The device has waited for the stream by now, so errors of a failed context do not matter.
  ~KernelStream() {
    if (scratch_ != nullptr) static_cast<void>(cudaFree(scratch_));
  }
  KernelStream(const KernelStream&) = delete;
  KernelStream& operator=(const KernelStream&) = delete;

  template <class... Params, class... Args>
  void launch(std::string_view op, const Launch& shape, void (*kernel)(Params...), Args&&... args) {
    cuda::launch(op, shape, stream_, kernel, std::forward<Args>(args)...);
  }

  // Memory for the kernels of one op, until its last; the next op may get the same memory.
  void* scratch(std::size_t bytes) {
    if (bytes <= size_) return scratch_;
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cuda_check("scratch", cudaStreamIsCapturing(stream_, &capture));
    check(capture == cudaStreamCaptureStatusNone, "scratch",
          "{} bytes within a step that is recorded, need the {} of the step before", bytes, size_);
    charged_.resize(bytes, "scratch of kernels");
    if (scratch_ != nullptr) cuda_check("scratch", cudaFreeAsync(scratch_, stream_));
    scratch_ = nullptr, size_ = 0;
    cuda_check("scratch", cudaMallocAsync(&scratch_, bytes, stream_));
    size_ = bytes;
    return scratch_;
  }

 private:
  cudaStream_t stream_;
  LibraryMemory charged_;
  void* scratch_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mbench::cuda
