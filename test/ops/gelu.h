// The GELU of GPT-2 and Megatron, and its slope by differences.
#pragma once
#include <cmath>

namespace mbench::test {

inline double gelu(double z) {
  return 0.5 * z * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (z + 0.044715 * z * z * z)));
}
inline double gelu_slope(double z) {
  return (gelu(z + 1e-5) - gelu(z - 1e-5)) / 2e-5;
}

}  // namespace mbench::test
