#include <array>

#include "engine/backend/cuda/matmul/fingerprint.cuh"
#include "engine/backend/cuda/matmul/fingerprint.h"

namespace mbench::cuda {

Fingerprint Fingerprints::of(const void* elements, DType type, std::int64_t n) {
  constexpr std::string_view where = "fingerprint";
  std::array<Fingerprint, kPrintBlocks> partial{};
  const std::size_t blocks = print_shape(n).grid_x, bytes = blocks * sizeof(Fingerprint);
  auto* on_gpu = static_cast<Fingerprint*>(kernels_.scratch(bytes));
  enqueue_fingerprint(kernels_, where, elements, type, n, on_gpu);
  cuda_check(where, cudaMemcpyAsync(partial.data(), on_gpu, bytes, cudaMemcpyDeviceToHost, stream_));
  cuda_check(where, cudaStreamSynchronize(stream_));
  Fingerprint sum;
  for (std::size_t i = 0; i < blocks; ++i) {
    sum.hash += partial[i].hash;
    sum.informative += partial[i].informative;
  }
  return sum;
}

}  // namespace mbench::cuda
