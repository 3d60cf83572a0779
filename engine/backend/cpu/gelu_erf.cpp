#include "engine/ops/gelu_erf.h"

#include "engine/backend/cpu/bias_activation.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/gelu_math.h"

namespace mbench::cpu {
template <>
void compute(CpuOps&, const ops::GeluErf& op) {
  activate(op, [](float z) { return gelu_erf(z); });
}

template <>
void compute(CpuOps&, const ops::GeluErfGrad& op) {
  activate_grad(op, [](float z) { return gelu_erf_slope(z); });
}

}  // namespace mbench::cpu
