// Copies between pageable host memory and a GPU, through pinned buffers. An upload returns as soon as its bytes are in a buffer, a download
// when they have arrived. There are buffers for the inputs of several micro batches. With fewer, the next micro batch's inputs would make
// the host wait for all earlier work of the GPU.
//
// A small upload crosses the link on its own stream, into a slot of the GPU's memory. Meanwhile the compute stream does earlier work. The
// compute stream waits for the arrival and copies from the slot: its earlier work may use the destination.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <functional>
#include <span>

#include "engine/backend/cuda/device/stream.h"
#include "engine/device/library_memory.h"

namespace mbench::cuda {

class Staging {
 public:
  // `wait` returns when an event has passed, or throws where it never will: messages that do not come may block the stream. The slots are
  // charged to `memory`.
  Staging(cudaStream_t stream, Allocator& memory, std::function<void(cudaEvent_t)> wait);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  void upload(std::byte* to, std::span<const std::byte> from);
  void download(const std::byte* from, std::span<std::byte> to);

 private:
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  static constexpr std::size_t kBuffers = 16;
  static constexpr std::size_t kSlotBytes = std::size_t{256} << 10;  // the tokens of 16 samples of 2048
  static constexpr std::size_t kSmall = 4 * kSlotBytes;  // larger ones would keep the slots from other inputs
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t free = nullptr;  // when the copy that uses it has ended
    std::byte* slot = nullptr;
    cudaEvent_t drained = nullptr;  // when the slot has been copied from
  };
  Buffer& next();
  void upload_aside(std::byte* to, std::span<const std::byte> from);
  cudaStream_t stream_;
  Stream link_;
  LibraryMemory charged_;
  std::byte* slots_ = nullptr;
  std::function<void(cudaEvent_t)> wait_;
  std::array<Buffer, kBuffers> buffers_;
  std::size_t turn_ = 0;
};

}  // namespace mbench::cuda
