// GELU of one number and its slope, in its tanh form and by erf, without branches.
#pragma once
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

// 0.5 z (1 + tanh(u)) = z / (1 + e^(-2u)), u = sqrt(2/pi) (z + 0.044715 z^3).
inline constexpr float kGeluTwoRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

inline float gelu(float z) {
  return z / (1.0f + exp_f32(-kGeluTwoRoot * (z + kGeluCubic * z * z * z)));
}

inline float gelu_slope(float z) {
  const float s = 1.0f / (1.0f + exp_f32(-kGeluTwoRoot * (z + kGeluCubic * z * z * z)));
  return s + z * s * (1.0f - s) * (kGeluTwoRoot * (1.0f + 3 * kGeluCubic * z * z));
}

// The normal distribution's function and e^(-z^2 / 2). Abramowitz and Stegun 7.1.26 gives erfc(x) for x >= 0 as a polynomial in 1 / (1 +
// 0.3275911 x) times e^(-x^2), within 1.5e-7.
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

inline float gelu_erf(float z) {
  return z * normal(z).phi;
}

inline float gelu_erf_slope(float z) {
  const Normal at_z = normal(z);
  return at_z.phi + z * at_z.bell * 0.39894228f;  // 1 / sqrt(2 pi)
}

}  // namespace mbench::cpu
