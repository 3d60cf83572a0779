// Fingerprints of results on the GPU, to see whether two algorithms give the same bits (kernels/fingerprint.cuh).
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/backend/cuda/device/kernel_stream.h"
#include "engine/base/dtype.h"

namespace mbench::cuda {

// Of a range of elements: a hash of all their bits, and the count of numbers other than zero.
struct Fingerprint {
  std::uint64_t hash = 0, informative = 0;
  bool operator==(const Fingerprint&) const = default;
};

class Fingerprints {
 public:
  Fingerprints(cudaStream_t stream, Allocator& memory) : stream_(stream), kernels_(stream, memory) {}
  // Waits for the stream.
  Fingerprint of(const void* elements, DType type, std::int64_t n);

 private:
  cudaStream_t stream_;
  KernelStream kernels_;
};

}  // namespace mbench::cuda
