// Points that differ in layout alone compute the same step, so their losses and gradient norms must agree
// to rounding: dropout masks and weights do not depend on the layout. A speed never stands without this. Where the layout decides
// what is trained (router capacity:F), only layouts that decide alike compute the same step.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result.h"

namespace mbench::sweeps {

// The same for points that must agree: the point without its fields of layout, limit and place, and what its layout decides
// (decided_by_layout() of engine/point/tolerance.h).
std::string agreement_key(const Point& point);

// Checks an ok result against the ok results before it that must agree, the one of the smallest world first.
// If a loss or a gradient norm is apart (engine/point/tolerance.h), or a loss is NaN, the result becomes `wrong`
// with a reason that names the step and the reference. One whose layout decides otherwise than that of a result before it says so in
// its reason, and stays ok.
void check_losses(PointResult& result, const std::vector<PointResult>& before);

}  // namespace mbench::sweeps
