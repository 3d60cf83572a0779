// run(), the one front of all ops: it checks, charges the meter and calls the device's table, and adds the op to a step
// that is recorded. What runs an op includes this and
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

// What the time of an op is: its `part` if it declares one.
template <class Op>
constexpr TimePart part_of() {
  if constexpr (requires { Op::part; })
    return Op::part;
  else
    return TimePart::elementwise;
}

// An op's place in a device's table. Written out for every op of AllOps in ops.cpp.
template <class Op>
OpSlot<Op>& slot_of(OpTable& table);

// An op that has been checked.
template <class Op>
void perform(Device& device, const Op& op) {
  device.meter().charge(op.cost());
  OpSlot<Op>& slot = slot_of<Op>(device.ops());
  if (device.immediate()) {
    const double begin = device.now();
    slot.run(op);
    const double end = device.now();
    at(device.meter().seconds, part_of<Op>()) += end - begin;
    if (Timeline* timeline = device.timeline()) timeline->add(Track::compute, Op::name, begin, end);
    return;
  }
  slot.run(op);
}

template <class Op>
void run(Device& device, const Op& op) {
  op.check();
  if (CallList* list = device.recording()) list->add([&device, op] { perform(device, op); });
  perform(device, op);
}

}  // namespace mbench
