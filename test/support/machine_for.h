// The machine on which tests simulate a layout: one that multiplies in its precision.
#pragma once
#include "engine/point/point.h"
#include "engine/sim/machine/machine.h"

namespace mbench::test {

// The machine of that name, or where it lacks the point's number format B200.
inline const sim::Machine& machine_for(const Point& point, const sim::Machine& usual) {
  static const sim::Machine b200 = sim::find_machine("B200-180GB", "test");
  const bool mxfp8 = point.precision == Precision::fp8 && point.fp8_recipe == Fp8Recipe::mxfp8;
  return mxfp8 || point.precision == Precision::nvfp4 ? b200 : usual;
}

}  // namespace mbench::test
