// Memory that kernels need during one call. The device keeps and reuses it, so no call page-faults once its shapes have been seen. It lies
// outside the engine's arena and counts as library memory.
#pragma once
#include <cstddef>
#include <cstdint>

#include "engine/device/library_memory.h"

namespace mbench::cpu {

class Scratch {
 public:
  explicit Scratch(Allocator& memory) : charged_(memory) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes` bytes, aligned to a cache line; former content is lost. There is one buffer, valid until the next call. Throws
  // OutOfMemory where this is more than the device may hold.
  void* bytes(std::size_t bytes);
  float* floats(std::int64_t n) { return static_cast<float*>(bytes(static_cast<std::size_t>(n) * sizeof(float))); }

 private:
  LibraryMemory charged_;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mbench::cpu
