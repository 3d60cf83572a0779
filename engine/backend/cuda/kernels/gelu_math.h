// The tanh form of GELU as z times a logistic function: 0.5 z (1 + tanh(u)) = z / (1 + e^(-2u)), with
// u = sqrt(2/pi) (z + 0.044715 z^3).
#pragma once
#include "engine/backend/cuda/kernels/simt.h"

namespace mbench::cuda {

inline constexpr float kGeluTwoRoot = 1.5957691216f;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

// `T`: the storage type of the result.
template <class T>
__device__ inline float gelu(float z) {
  return divide_for<T>(z, 1.0f + exp_for<T>(-kGeluTwoRoot * (z + kGeluCubic * z * z * z)));
}

template <class T>
__device__ inline float gelu_slope(float z) {
  const float s = divide_for<T>(1.0f, 1.0f + exp_for<T>(-kGeluTwoRoot * (z + kGeluCubic * z * z * z)));
  return s + z * s * (1.0f - s) * (kGeluTwoRoot * (1.0f + 3 * kGeluCubic * z * z));
}

}  // namespace mbench::cuda
