// Codes of e2m1 in few instructions: equal to e2m1_from_float() of each (engine/base/fp8.h), whose comparisons took most of a cast's time.
#pragma once
#include <bit>
#include <cmath>

#include "engine/backend/cuda/kernels/simt.h"
#include "engine/base/fp8.h"

namespace mbench::cuda {

inline constexpr int kE2m1Shift =
    22;  // of a float's exponent and first bit of mantissa, which are e2m1's for numbers from 1 on
inline constexpr std::uint32_t kE2m1Bias = 126u << 1;
__device__ inline std::uint32_t e2m1_sign(float x) {
  return std::bit_cast<std::uint32_t>(x) >> 28 & 8;
}

// Below 1 the sum with 2^22 rounds to halves, and its last bits count them.
__device__ inline std::uint32_t e2m1_nearest(float x) {
  const float size = fabsf(x) < kLargestE2m1 ? fabsf(x) : kLargestE2m1;
  const auto bits = std::bit_cast<std::uint32_t>(size);
  const std::uint32_t halves = std::bit_cast<std::uint32_t>(size + 4194304.0f) & 3;
  const std::uint32_t code = (bits + 0x1FFFFF + (bits >> kE2m1Shift & 1)) >> kE2m1Shift;
  return e2m1_sign(x) | (size < 1 ? halves : code - kE2m1Bias);
}

// The value above the lower one is half a binade away, below 1 a half.
__device__ inline std::uint32_t e2m1_drawn(float x, std::uint32_t word) {
  const float size = fabsf(x);
  const auto bits = std::bit_cast<std::uint32_t>(size);
  const bool normal = size >= 1, half = size >= 0.5f;
  const float low = normal ? std::bit_cast<float>(bits & 0x7FC00000u) : half ? 0.5f : 0.0f;
  const float step = normal ? std::bit_cast<float>((bits & 0x7F800000u) - 0x800000u) : 0.5f;
  const std::uint32_t below = normal ? (bits >> kE2m1Shift) - kE2m1Bias : static_cast<std::uint32_t>(half);
  const bool up = (size - low) * 4294967296.0f > static_cast<float>(word) * step;
  return e2m1_sign(x) | (size < kLargestE2m1 ? below + static_cast<std::uint32_t>(up) : 7);
}

}  // namespace mbench::cuda
