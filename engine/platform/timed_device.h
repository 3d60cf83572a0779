// A device whose ops are another's, with a clock around each: the name, the work and the seconds of every op and copy of a run
// are kept. For devices whose ops have ended when their calls return. Memory is the CPU's own, beside that of the other device.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device/device.h"

namespace mbench {

struct TimedOp {
  std::string_view name;
  double work = 0;  // bytes; of a matrix product, fused attention included, FLOPs
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

}  // namespace mbench
