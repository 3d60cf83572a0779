// While it lives, a tensor that is made stands for several of a framework: gates and ups, or queries, keys and values, each by a GEMM of its
// own. On a device it is one tensor. A simulation records it for allocators to which two blocks are not one block of their size.
// Of the calling thread.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

namespace mbench {

// Sizes relative to each other; those that are 0 are not there. All 0: one tensor.
using TensorParts = std::array<std::uint8_t, 3>;

class InParts {
 public:
  explicit InParts(const TensorParts& parts) : before_(std::exchange(now_, parts)) {}
  ~InParts() { now_ = before_; }
  InParts(const InParts&) = delete;
  InParts& operator=(const InParts&) = delete;
  static const TensorParts& now() { return now_; }

 private:
  static constinit inline thread_local TensorParts now_{};
  TensorParts before_;
};

}  // namespace mbench
