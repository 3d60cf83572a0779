#include "engine/ops/gelu_erf.h"

#include "engine/backend/cpu/bias_activation.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// The normal distribution's function and e^(-z^2 / 2), without branches: Abramowitz and Stegun 7.1.26 gives erfc(x) for
// x >= 0 as a polynomial in 1 / (1 + 0.3275911 x) times e^(-x^2), within 1.5e-7.
struct Normal {
  float phi, bell;
};
inline Normal normal(float z) {
  const float x = std::fabs(z) * 0.70710678f;
  const float t = 1.0f / (1.0f + 0.3275911f * x);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float bell = exp_f32(-x * x), half_tail = 0.5f * p * t * bell;
  return {z < 0.0f ? half_tail : 1.0f - half_tail, bell};
}

constexpr float kInverseRootTwoPi = 0.39894228f;

}  // namespace

template <>
void compute(CpuOps&, const ops::GeluErf& op) {
  activate(op, [](float z) { return z * normal(z).phi; });
}

template <>
void compute(CpuOps&, const ops::GeluErfGrad& op) {
  activate_grad(op, [](float z) {
    const Normal at_z = normal(z);
    return at_z.phi + z * at_z.bell * kInverseRootTwoPi;
  });
}

}  // namespace mbench::cpu
