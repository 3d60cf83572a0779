// Elementary functions in f32 without branches, so that loops over them vectorise. Errors are a few ulp; NaN in is NaN out. Ranges are
// reduced as usual, and the remainder is a Taylor series that is long enough for f32.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace mbench::cpu {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kLog2e = 1.44269504f;
// ln 2 in two parts: n * kLn2High is exact for every n that occurs.
inline constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
// Adding and subtracting 1.5 * 2^23 rounds to an integer, which is then in the low bits.
inline constexpr float kRound = 12582912.0f;

// x = n ln 2 + r with |r| <= ln(2)/2; `n` returns an integer, and the value is e^r - 1.
[[gnu::always_inline]] inline float expm1_reduced(float x, std::int32_t& n) {
  const float shifted = x * kLog2e + kRound;
  n = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float whole = shifted - kRound;
  const float r = x - whole * kLn2High - whole * kLn2Low;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  return p * (r * r) + r;
}

[[gnu::always_inline]] inline float power_of_two(std::int32_t n) {  // -127 (gives 0) <= n <= 127
  return std::bit_cast<float>((n + 127) << 23);
}

// e^x; zero where it would be below 2^-125.
[[gnu::always_inline]] inline float exp_f32(float x) {
  const float low = -86.6f;
  const float top = x > 89.0f ? 89.0f : x;
  const float clamped = top < low ? low : top;
  std::int32_t n;
  const float p = expm1_reduced(clamped, n);
  const float y = (1.0f + p) * power_of_two(n - 1) * 2.0f;  // two steps: 2^128 is no float
  return x < low ? 0.0f : y;
}

// e^x - 1 without cancellation near 0, for x of at most 0.
[[gnu::always_inline]] inline float expm1_f32(float x) {
  const float clamped = x < -86.6f ? -86.6f : x;
  std::int32_t n;
  const float p = expm1_reduced(clamped, n);
  const float two_n = power_of_two(n);
  return p * two_n + (two_n - 1.0f);
}

[[gnu::always_inline]] inline float tanh_f32(float x) {
  const float a = std::fabs(x);
  const float y = 2 * (a > 10.0f ? 10.0f : a);  // tanh(10) rounds to 1
  std::int32_t n;
  const float p = expm1_reduced(y, n);
  const float two_n = power_of_two(n);
  const float e = p * two_n + (two_n - 1.0f);  // e^y - 1 without cancellation near 0
  return std::copysign(e / (e + 2.0f), x);
}

// ln(1 + f) for 1 + f in [1/sqrt(2), sqrt(2)], by 2 atanh(f / (2 + f)). F is float or a vector of them.
template <class F>
[[gnu::always_inline]] inline F log1p_reduced(F f) {
  const F s = f / (2.0f + f), z = s * s;
  F p = (1.0f / 9) * z + 1.0f / 7;
  p = p * z + 1.0f / 5;
  p = p * z + 1.0f / 3;
  return 2.0f * s + 2.0f * s * (z * p);
}

// ln x for positive, normal x.
[[gnu::always_inline]] inline float log_f32(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t half = std::bit_cast<std::int32_t>(0.70710678f);
  const std::int32_t n = (bits - half) >> 23;
  const float m = std::bit_cast<float>(bits - (n << 23));
  const float e = static_cast<float>(n);
  return e * kLn2High + (e * kLn2Low + log1p_reduced(m - 1.0f));
}

// sin and cos of 2 pi w / 2^32: the quadrant and the remainder are exact in integers.
[[gnu::always_inline]] inline void sin_cos_turn(std::uint32_t w, float& sine, float& cosine) {
  const std::uint32_t quadrant = (w + (1u << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(w - (quadrant << 30));
  const float x = static_cast<float>(rest) * 1.46291807926715968e-9f;  // 2 pi / 2^32
  const float z = x * x;
  float s = 1.0f / 362880;
  s = s * z - 1.0f / 5040;
  s = s * z + 1.0f / 120;
  s = s * z - 1.0f / 6;
  s = x + x * (z * s);
  float c = -1.0f / 3628800;
  c = c * z + 1.0f / 40320;
  c = c * z - 1.0f / 720;
  c = c * z + 1.0f / 24;
  c = c * z - 0.5f;
  c = 1.0f + z * c;
  const bool swap = (quadrant & 1u) != 0;
  const float a = swap ? c : s, b = swap ? s : c;
  sine = (quadrant & 2u) != 0 ? -a : a;
  cosine = ((quadrant + 1u) & 2u) != 0 ? -b : b;
}

// Reductions of a row in kLanes interleaved parts, so that they vectorise and never depend on the thread count.
inline constexpr std::int64_t kLanes = 32;

template <class F>
float max_of(std::int64_t n, F&& value) {  // NaN is skipped; -infinity for no elements
  float lane[kLanes];
  for (float& m : lane) m = -kInf;
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const float x = value(i + l);
      lane[l] = x > lane[l] ? x : lane[l];
    }
  }
  for (std::int64_t l = 0; i + l < n; ++l) {
    const float x = value(i + l);
    lane[l] = x > lane[l] ? x : lane[l];
  }
  float m = lane[0];
  for (std::int64_t l = 1; l < kLanes; ++l) m = lane[l] > m ? lane[l] : m;
  return m;
}

template <class F>
float sum_of(std::int64_t n, F&& value) {
  float lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (std::int64_t l = 0; l < kLanes; ++l) lane[l] += value(i + l);
  }
  for (std::int64_t l = 0; i + l < n; ++l) lane[l] += value(i + l);
  for (std::int64_t step = kLanes / 2; step > 0; step /= 2)
    for (std::int64_t l = 0; l < step; ++l) lane[l] += lane[l + step];
  return lane[0];
}

}  // namespace mbench::cpu
