// Vectors of floats as long as the CPU's registers, for loops that compilers do not reliably make of scalar code.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>

#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

#if defined(__AVX512F__)
inline constexpr std::int64_t kVector = 16;  // floats
#else
inline constexpr std::int64_t kVector = 8;
#endif

typedef float FloatVector __attribute__((vector_size(4 * kVector)));
typedef std::int32_t IntVector __attribute__((vector_size(4 * kVector)));

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

inline FloatVector load_vector(const float* from) {
  FloatVector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline void store_vector(const FloatVector& v, float* to) {
  std::memcpy(to, &v, sizeof v);
}
inline FloatVector all(float x) {
  return FloatVector{} + x;
}

// 0, 1, 2, ...
inline IntVector lane_numbers() {
  return []<std::size_t... L>(std::index_sequence<L...>) {
    return IntVector{static_cast<std::int32_t>(L)...};
  }
  (std::make_index_sequence<kVector>());
}
// The first `count` elements, and zeros.
inline FloatVector first_of(const FloatVector& v, std::int64_t count) {
  return lane_numbers() < IntVector{} + static_cast<std::int32_t>(count) ? v : FloatVector{};
}

// What `op` makes of all elements: halves of S are joined until one element is left.
template <int S = kVector / 2, class Op>
inline float joined(const FloatVector& v, Op op) {
  const FloatVector x = [&]<std::size_t... L>(std::index_sequence<L...>) {
    return op(v, __builtin_shufflevector(v, v, (static_cast<int>(L) ^ S)...));
  }
  (std::make_index_sequence<kVector>());
  if constexpr (S > 1) return joined<S / 2>(x, op);
  return x[0];
}
inline float sum_of(const FloatVector& v) {
  return joined(v, [](const FloatVector& a, const FloatVector& b) { return a + b; });
}
inline FloatVector larger(const FloatVector& a, const FloatVector& b) {  // b where one is NaN
  return a > b ? a : b;
}
inline float largest_of(const FloatVector& v) {
  return joined(v, larger);
}

// e^x for x up to 88, zero where it would be below 2^-125, and NaN for NaN: x = n ln 2 + r as in expm1_reduced(). The polynomial is the one of
// degree 6 with the least relative error (2e-9) that is 1 at 0; with f32's rounding 7e-8.
[[gnu::always_inline]] inline FloatVector exp_of(const FloatVector& x) {
  const FloatVector shifted = x * kLog2e + kRound, whole = shifted - kRound;
  const FloatVector r = x - whole * kLn2High - whole * kLn2Low;
  FloatVector p = all(0.00138436444f);
#pragma GCC unroll 6
  for (const float c : {0.00837416349f, 0.0416680026f, 0.166664312f, 0.499999942f, 1.00000003f, 1.0f}) p = p * r + c;
  const IntVector two_n = (reinterpret_cast<IntVector>(shifted) + 127) << 23;  // n is in the low bits
  return x < all(-86.6f) ? FloatVector{} : p * reinterpret_cast<FloatVector>(two_n);
}

// f(i, part) for each vector of n floats, rounded up: i is where it begins, and parts 0 and 1 alternate, for sums that do not wait for each
// other.
template <class F>
[[gnu::always_inline]] inline void for_vectors(std::int64_t n, F&& f) {
  std::int64_t i = 0;
  for (; i + kVector < n; i += 2 * kVector) f(i, 0), f(i + kVector, 1);
  if (i < n) f(i, 0);
}

}  // namespace mbench::cpu
