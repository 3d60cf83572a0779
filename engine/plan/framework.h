// What the plan's framework says next to what a step keeps (Keeps): how gradients wait to be reduced, whether logits are held, and
// PyTorch's autocast.
#pragma once
#include "engine/framework/framework.h"
#include "engine/plan/plan.h"

namespace mbench {

// Whether a step has 16-bit copies of f32 weights, and norms and softmax in f32.
inline bool under_autocast(const Plan& plan) {
  return plan.framework->autocast.on && plan.precision.main_weights() && !plan.precision.fp8;
}

}  // namespace mbench
