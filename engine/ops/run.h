// run() is the one entry of all ops: it checks the op, charges the meter and calls the device's table. It also adds the
// op to a step that is being recorded. What runs an op includes this header and the op's own. Only ops.h knows all ops,
// so that a new one recompiles few sources.
#pragma once
#include "engine/device/device.h"

namespace mbench {

class AnyOpSlot {
 public:
  virtual ~AnyOpSlot() = default;
};

template <class Op>
class OpSlot : public AnyOpSlot {
 public:
  virtual void run(const Op& op) = 0;
};

// The part of the step that an op's time counts for: its `part` if it declares one.
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

// Runs an op that has been checked.
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
  if (!device.enqueues()) return;
  if (CallList* list = device.recording()) list->add([&device, op] { perform(device, op); });
  perform(device, op);
}

}  // namespace mbench
