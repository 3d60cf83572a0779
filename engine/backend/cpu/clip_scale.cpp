#include "engine/ops/clip_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::ClipScale& op) {
  float* const step = op.by_step.as<float>();
  float scale = step[ops::kStepUnscale];
  const float norm = std::sqrt(*op.squares.as<float>()) * scale;
  if (!std::isfinite(norm))
    scale = std::numeric_limits<float>::quiet_NaN();
  else if (op.clip > 0)
    scale *= std::min(1.0f, op.clip / (norm + 1e-6f));
  step[ops::kStepGradScale] = scale;
  step[ops::kStepNorm] = norm;
}

}  // namespace mbench::cpu
