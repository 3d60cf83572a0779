// Points that differ in layout alone compute the same step, so their losses must agree to rounding: dropout
// masks and weights do not depend on the layout. A speed never stands without this.
#pragma once
#include <string>
#include <vector>

#include "engine/spec/result.h"

namespace mbench::sweeps {

// The same for points that must agree: the point without what is layout (axes, recompute, schedule, graph,
// limits).
std::string agreement_key(const Point& point);

// How far two losses may be apart, relative to the larger one: 1e-4 in f32, 2e-2 in bf16 and fp16.
double loss_tolerance(Precision precision);

// Checks an ok result against the ok results before it that must agree, the one of the smallest world first.
// If a loss is apart, or is NaN, the result becomes `wrong` with a reason that names the step and the
// reference.
void check_losses(PointResult& result, const std::vector<PointResult>& before);

}  // namespace mbench::sweeps
