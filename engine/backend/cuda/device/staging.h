// Copies between pageable host memory and a GPU, through pinned buffers on a stream: an upload returns as
// soon as its bytes are in a buffer, a download when they have arrived. There are buffers for the inputs of several micro batches: with
// fewer the host would wait, at the next micro batch's inputs, for all that the GPU had been given before.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>

namespace mbench::cuda {

class Staging {
 public:
  // `wait` returns when an event has passed, or throws where it never will: the stream may be held up by
  // messages that do not come.
  Staging(cudaStream_t stream, std::function<void(cudaEvent_t)> wait);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  void upload(std::byte* to, std::span<const std::byte> from);
  void download(const std::byte* from, std::span<std::byte> to);

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::size_t kBuffers = 16;
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t free = nullptr;  // when the copy that uses it has ended
  };
  Buffer& next();
  cudaStream_t stream_;
  std::function<void(cudaEvent_t)> wait_;
  std::array<Buffer, kBuffers> buffers_;
  std::size_t turn_ = 0;
};

}  // namespace mbench::cuda
