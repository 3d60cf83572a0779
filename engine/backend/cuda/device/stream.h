// A stream that ends with its owner, and waits for no other.
#pragma once
#include <cuda_runtime_api.h>

#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {

class Stream {
 public:
  Stream() { cuda_check("cuda", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~Stream() {
    if (stream_) cudaStreamDestroy(stream_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace mbench::cuda
