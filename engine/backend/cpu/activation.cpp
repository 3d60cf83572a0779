#include "engine/ops/activation.h"

#include "engine/backend/cpu/bias_activation.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Activate& op) {
  if (op.kind == ops::ActivationKind::relu) return activate(op, [](float z) { return z > 0.0f ? z : 0.0f; });
  activate(op, [](float z) { return z / (1.0f + exp_f32(-z)); });
}

template <>
void compute(CpuOps&, const ops::ActivateGrad& op) {
  if (op.kind == ops::ActivationKind::relu) return activate_grad(op, [](float z) { return z > 0.0f ? 1.0f : 0.0f; });
  activate_grad(op, [](float z) {
    const float s = 1.0f / (1.0f + exp_f32(-z));
    return s * (1.0f + z * (1.0f - s));
  });
}

}  // namespace mbench::cpu
