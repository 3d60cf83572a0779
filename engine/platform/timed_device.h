// A device that runs its ops on another device, with a clock around each. It keeps the name, work and seconds of every op and copy of a
// run. For devices whose ops have ended when their calls return. Its memory is the CPU's own, separate from the other device's.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/device.h"

namespace mbench::platform {

struct TimedOp {
  std::string_view name;
  double work = 0;  // bytes; for a GEMM or fused attention, FLOPs
  double seconds = 0;
};

class TimedDevice : public Device {
 public:
  // `cpu` computes, and outlives this; tensors lie in `memory`, which it can read.
  static std::unique_ptr<TimedDevice> open(Device& cpu, std::unique_ptr<RawMemory> memory);
  // What was run since it was opened.
  virtual const std::vector<TimedOp>& log() const = 0;

 protected:
  using Device::Device;
};

}  // namespace mbench::platform
