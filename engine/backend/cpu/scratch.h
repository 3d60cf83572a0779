// Memory that kernels need for the length of one call: kept by the device and reused, so that no call
// page-faults once its shapes have been seen. It is host memory, not the engine's.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mbench::cpu {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes` bytes, aligned to a cache line; what stood there is lost. One buffer: valid until the
  // next call.
  void* bytes(std::size_t bytes);
  float* floats(std::int64_t n) {
    return static_cast<float*>(bytes(static_cast<std::size_t>(n) * sizeof(float)));
  }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace mbench::cpu
