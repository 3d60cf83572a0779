// Points that differ only in layout compute the same step. So their losses and gradient norms must agree to rounding: dropout masks and
// weights do not depend on the layout. No speed is reported without this check. Where the layout decides what is trained (router
// capacity:F), only layouts that decide alike compute the same step.
#pragma once
#include <string>
#include <vector>

#include "engine/point/result.h"

namespace mbench::sweeps {

// The key shared by points that must agree: the point without its fields of layout, limit and place. It includes what the layout
// decides (decided_by_layout() of engine/point/tolerance.h).
std::string agreement_key(const Point& point);

// Checks an ok result against the earlier ok results that must agree, the smallest world first. It becomes `wrong` if a loss or a
// gradient norm differs too much (engine/point/tolerance.h), or a loss is NaN. The reason names the step and the reference. If its
// layout decides otherwise than the layout of an earlier result, its reason says so, and it stays ok.
void check_losses(PointResult& result, const std::vector<PointResult>& before);

}  // namespace mbench::sweeps
