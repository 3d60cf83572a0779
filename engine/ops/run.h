// run(), the one front of all ops: it checks, charges the meter and calls the device's table. What runs an op includes this and
// the op's own header; all ops are known in ops.h alone, so that a new one recompiles few sources.
#pragma once
#include "engine/device/device.h"

namespace mbench {

template <class Op>
class OpSlot {
 public:
  virtual ~OpSlot() = default;
  virtual void run(const Op& op) = 0;
};

// An op's place in a device's table. Written out for every op of AllOps in ops.cpp.
template <class Op>
OpSlot<Op>& slot_of(OpTable& table);

template <class Op>
void run(Device& device, const Op& op) {
  op.check();
  device.meter().charge(op.cost());
  OpSlot<Op>& slot = slot_of<Op>(device.ops());
  if (Timeline* timeline = device.timeline(); timeline && device.immediate()) {
    const double begin = device.now();
    slot.run(op);
    timeline->add(Track::compute, Op::name, begin, device.now());
    return;
  }
  slot.run(op);
}

}  // namespace mbench
