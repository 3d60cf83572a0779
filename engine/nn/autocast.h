// Whether a step runs as under PyTorch's autocast: 16-bit copies of f32 weights, and norms and softmax in f32
// (engine/framework/framework.h).
#pragma once
#include "engine/framework/framework.h"
#include "engine/plan/plan.h"

namespace mbench {

inline bool under_autocast(const Plan& plan) {
  return plan.framework->autocast.on && plan.precision.main_weights() && !plan.precision.fp8;
}

}  // namespace mbench
