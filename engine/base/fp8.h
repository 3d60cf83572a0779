// FP8 storage with f32 arithmetic (Micikevicius et al. 2022, FP8 Formats for Deep Learning, arXiv:2209.05433). Converts single elements,
// for the CPU and for kernels. e4m3 has 4 bits of exponent (bias 7) and 3 of mantissa, no infinities, one NaN of either sign, and 448 as
// its largest value. e5m2 has 5 (bias 15) and 2, IEEE's infinities and NaNs, and 57344.
#pragma once
#include <bit>
#include <cstdint>

#include "engine/base/dtype.h"

namespace mbench {

struct e4m3 {
  std::uint8_t bits;
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr std::uint32_t kLargest = 0x7E, kNaN = 0x7F;
};
struct e5m2 {
  std::uint8_t bits;
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr std::uint32_t kLargest = 0x7B, kNaN = 0x7F;
};

template <class T>
constexpr float fp8_to_float(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24, code = bits & 0x7F;
  if (code > T::kLargest) {
    // e5m2's first code beyond its numbers is an infinity; e4m3 has only a NaN.
    const bool infinite = T::kMantissa == 2 && code == 0x7C;
    return std::bit_cast<float>(sign | (infinite ? 0x7F800000u : 0x7FC00000u));
  }
  const std::uint32_t exponent = code >> T::kMantissa, mantissa = code & ((1u << T::kMantissa) - 1);
  if (exponent > 0)
    return std::bit_cast<float>(sign | ((exponent + 127 - T::kBias) << 23) | (mantissa << (23 - T::kMantissa)));
  // Subnormal: a multiple of the smallest.
  const auto smallest = std::bit_cast<float>(static_cast<std::uint32_t>(128 - T::kBias - T::kMantissa) << 23);
  const float value = static_cast<float>(mantissa) * smallest;
  return sign != 0 ? -value : value;
}

// The nearest value; of two equally near, the one with the even code. Larger magnitudes become the largest value, as in NVIDIA's conversion
// with saturation (cvt.rn.satfinite). NaN stays NaN.
template <class T>
constexpr std::uint8_t fp8_from_float(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 24) & 0x80, a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<std::uint8_t>(sign | T::kNaN);
  const int exponent = static_cast<int>(a >> 23) - 127, least = 1 - T::kBias;  // of a normal value
  std::uint32_t code = 0;
  if (exponent >= least) {
    constexpr int kShift = 23 - T::kMantissa;
    const std::uint32_t rounded = (a + (1u << (kShift - 1)) - 1 + ((a >> kShift) & 1u)) >> kShift;
    code = rounded - (static_cast<std::uint32_t>(127 - T::kBias) << T::kMantissa);
    if (code > T::kLargest) code = T::kLargest;
  } else {
    const int shift = 23 - T::kMantissa + least - exponent;
    if (shift <= 24) {
      const std::uint32_t m = (a & 0x7FFFFFu) | 0x800000u;
      code = (m + (1u << (shift - 1)) - 1 + ((m >> shift) & 1u)) >> shift;
    }
  }
  return static_cast<std::uint8_t>(sign | code);
}

constexpr float to_float(e4m3 x) {
  return fp8_to_float<e4m3>(x.bits);
}
constexpr float to_float(e5m2 x) {
  return fp8_to_float<e5m2>(x.bits);
}

// e2m1, the codes of NVFP4: a sign, 2 bits of exponent (bias 1) and 1 of mantissa; 0, 0.5, 1, 1.5, 2, 3, 4 and 6. Two to a byte, the
// first in its lower half.
inline constexpr float kLargestE2m1 = 6;
constexpr float e2m1_to_float(std::uint8_t code) {
  const int exponent = (code >> 1) & 3, mantissa = code & 1;
  const float size = exponent == 0
                         ? 0.5f * static_cast<float>(mantissa)
                         : (1 + 0.5f * static_cast<float>(mantissa)) * static_cast<float>(1 << (exponent - 1));
  return (code & 8) != 0 ? -size : size;
}
// The nearest; of two equally near, the one of the even code. With `word`, a draw of 32 bits: the one above with the probability
// that leaves the mean as it is, else the one below. Larger magnitudes become 6; NaN too, with its sign (cvt.rn.satfinite.e2m1x2.f32,
// cvt.rs.satfinite.e2m1x4.f32).
constexpr std::uint8_t e2m1_from_float(float x) {
  const std::uint8_t sign = (std::bit_cast<std::uint32_t>(x) >> 28) & 8;
  const float size = x < 0 ? -x : x;
  // Midpoints; at one, the even code of the two.
  const int code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
                   (size >= 3.5f) + (size > 5.0f);
  return static_cast<std::uint8_t>(sign | (size >= 0 ? code : 7));
}
constexpr std::uint8_t e2m1_from_float(float x, std::uint32_t word) {
  const std::uint8_t sign = (std::bit_cast<std::uint32_t>(x) >> 28) & 8;
  const float size = x < 0 ? -x : x;
  if (!(size < kLargestE2m1)) return static_cast<std::uint8_t>(sign | 7);
  const int below = (size >= 0.5f) + (size >= 1) + (size >= 1.5f) + (size >= 2) + (size >= 3) + (size >= 4);
  const float low = e2m1_to_float(static_cast<std::uint8_t>(below)),
              high = e2m1_to_float(static_cast<std::uint8_t>(below + 1));
  const bool up = (size - low) * 4294967296.0f > static_cast<float>(word) * (high - low);
  return static_cast<std::uint8_t>(sign | (below + up));
}

// E8M0: the scale of a block of MX formats, 2^(code - 127); 0xFF is NaN (Open Compute Project, Microscaling Formats (MX) 1.0, 5.4.1).
constexpr float e8m0_to_float(std::uint8_t code) {
  if (code == 0xFF) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(code == 0 ? 0x00400000u : static_cast<std::uint32_t>(code) << 23);
}
// The smallest power of two that is not below x >= 0; of NaN the NaN, of all beyond 2^127 that. Rounded up so that no element of a
// block saturates (cvt.rp.satfinite.ue8m0x2.f32).
constexpr std::uint8_t e8m0_from_float(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if (u > 0x7F800000u) return 0xFF;
  const std::uint32_t exponent = u >> 23, mantissa = u & 0x7FFFFFu;
  if (exponent >= 0xFE) return 0xFE;
  const bool between = exponent == 0 ? mantissa > 0x400000u : mantissa > 0;
  return static_cast<std::uint8_t>(exponent + between);
}

constexpr bool is_fp8(DType t) {
  return t == DType::e4m3 || t == DType::e5m2;
}
constexpr float largest_of(DType t) {
  return t == DType::e4m3 ? fp8_to_float<e4m3>(e4m3::kLargest) : fp8_to_float<e5m2>(e5m2::kLargest);
}

}  // namespace mbench
