// Two devices that run our CUDA kernels without a GPU. On both only the ops have kernels of our own. A library's GEMMs and attention
// launch no kernel of ours.
#pragma once
#include <memory>

#include "engine/device/device.h"
#include "test/simt/emulator.h"

namespace mbench::test {

// Host memory; every op's kernel runs on the emulator before the call returns.
class EmulatedDevice : public Device {
 public:
  using Device::Device;
  virtual const std::vector<cuda::Launch>& launches() const = 0;
};
std::unique_ptr<EmulatedDevice> open_emulated_device(simt::Order order);

// Memory that nobody follows; every launch is held against the limits of every GPU that we compile for, and no kernel
// runs. A launch beyond them throws.
class LimitsDevice : public Device {
 public:
  using Device::Device;
  virtual std::int64_t launches() const = 0;
  virtual std::size_t most_scratch() const = 0;  // bytes that a launch asked for
};
std::unique_ptr<LimitsDevice> open_limits_device();

}  // namespace mbench::test
