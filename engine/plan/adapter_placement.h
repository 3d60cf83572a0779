// How the two weights of a low-rank adapter lie, from how the weight of its layer does.
#pragma once
#include "engine/plan/placement.h"
#include "engine/point/architecture.h"

namespace mbench {

// `layer`: of a weight [out, in], or of experts [experts, out, in]. A [..., rank, in] is cut as its inputs are, and B [..., out, rank] as
// its outputs are; both by experts.
inline Spread adapter_placement(const Spread& layer, const WeightSpec& adapter) {
  const bool a = adapter.name.ends_with("_a");
  const int left_out = adapter.shape.rank() - (a ? 2 : 1);
  Spread own;
  for (int i = 0; i < kAxes; ++i)
    if (const auto axis = static_cast<Axis>(i); layer[axis].sharded() && !layer[axis].sharded(left_out))
      own.set(axis, layer[axis]);
  return own;
}

}  // namespace mbench
