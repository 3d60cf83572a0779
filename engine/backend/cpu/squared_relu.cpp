#include "engine/ops/squared_relu.h"

#include "engine/backend/cpu/bias_activation.h"
#include "engine/backend/cpu/cpu_ops.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::SquaredRelu& op) {
  activate(op, [](float z) {
    const float positive = z > 0.0f ? z : 0.0f;
    return positive * positive;
  });
}

template <>
void compute(CpuOps&, const ops::SquaredReluGrad& op) {
  activate_grad(op, [](float z) { return 2.0f * (z > 0.0f ? z : 0.0f); });
}

}  // namespace mbench::cpu
