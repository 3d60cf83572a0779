// When the memory of a training repeats. The first step may make what stays: a buffer that all share, a placeholder. The next step finds
// it there and may peak higher. A step that leaves in use what it found in use stands for all later ones: the steady state.
#pragma once
#include <array>

#include "engine/device/device.h"

namespace mbench::train {

class SteadyState {
 public:
  // Before the first step.
  explicit SteadyState(Device& device) : device_(device), found_(in_use()) {}

  // After each step: whether later ones do to memory what this one did. A training whose memory never repeats is an internal error.
  bool reached() {
    const Use left = in_use();
    const bool repeats = left == found_;
    ++steps_;
    check(repeats || steps_ < kMost, "memory", "{} bytes in use after step {}, need as many as after the step before",
          device_.memory().in_use().total, steps_);
    found_ = left;
    return repeats;
  }

 private:
  static constexpr int kMost = 8;
  // Bytes by category, of the device's memory and of the host's.
  using Use = std::array<std::array<std::size_t, kCategories>, 2>;
  Use in_use() const {
    const Device* host = device_.opened_host();
    return {device_.memory().in_use().by_category,
            host ? host->memory().in_use().by_category : MemoryUse().by_category};
  }

  Device& device_;
  Use found_;
  int steps_ = 0;
};

}  // namespace mbench::train
