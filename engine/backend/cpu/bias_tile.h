// A tile of an optional bias, for ops that work on x + bias.
#pragma once
#include <algorithm>

#include "engine/backend/cpu/convert.h"
#include "engine/device/tensor.h"

namespace mbench::cpu {

// n elements of the bias from `col` on as floats, or zeros if there is no bias.
template <class T>
const float* bias_tile(const Tensor& bias, std::int64_t col, std::int64_t n, float* buffer) {
  if (bias) return load(bias.as<T>() + col, buffer, n);
  std::fill(buffer, buffer + n, 0.0f);
  return buffer;
}

}  // namespace mbench::cpu
