// Vectors of floats as long as the CPU's registers, for loops that compilers do not reliably make of scalar code.
#pragma once
#if defined(__AVX__)
#include <immintrin.h>
#endif

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
  return x - FloatVector{};  // a sum would have to be computed: -0 + 0 is not -0
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

// Vectors a and b exchange halves of each block of 2 S elements: a takes the first halves of both, b the second ones.
template <int S, std::size_t... L>
inline void exchange_halves(FloatVector& a, FloatVector& b, std::index_sequence<L...>) {
  constexpr int kLanes = static_cast<int>(kVector);
  const FloatVector low =
      __builtin_shufflevector(a, b, ((L & S) == 0 ? static_cast<int>(L) : kLanes + static_cast<int>(L) - S)...);
  b = __builtin_shufflevector(a, b, ((L & S) == 0 ? static_cast<int>(L) + S : kLanes + static_cast<int>(L))...);
  a = low;
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
// b where one is NaN. GCC makes a comparison and a choice of `a > b ? a : b`.
[[gnu::always_inline]] inline FloatVector larger(const FloatVector& a, const FloatVector& b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xFFFF, a, b);  // GCC 12 warns of _mm512_max_ps()
#elif defined(__AVX__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
inline float largest_of(const FloatVector& v) {
  return joined(v, [](const FloatVector& a, const FloatVector& b) { return larger(a, b); });
}
// The sum of each of kVector vectors, in their order. Fewer shuffles than sum_of() each: a step adds two vectors' halves at a time.
template <int S = 1>
inline FloatVector sums_of(FloatVector* rows) {
  constexpr int kLeft = static_cast<int>(kVector) / 2 / S;
#pragma GCC unroll 8
  for (int r = 0; r < kLeft; ++r) {
    FloatVector a = rows[2 * r], b = rows[2 * r + 1];
    exchange_halves<S>(a, b, std::make_index_sequence<kVector>());
    rows[r] = a + b;
  }
  if constexpr (kLeft > 1) return sums_of<2 * S>(rows);
  return rows[0];
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

// For each element of n the table's element n modulo kVector.
inline IntVector picked(const IntVector& table, const IntVector& n) {
#if defined(__AVX512F__)
  return reinterpret_cast<IntVector>(
      _mm512_maskz_permutexvar_epi32(0xFFFF, reinterpret_cast<__m512i>(n), reinterpret_cast<__m512i>(table)));
#elif defined(__AVX2__)
  return reinterpret_cast<IntVector>(
      _mm256_permutevar8x32_epi32(reinterpret_cast<__m256i>(table), reinterpret_cast<__m256i>(n)));
#else
  IntVector v;
  for (std::int64_t l = 0; l < kVector; ++l) v[l] = table[n[l] & (kVector - 1)];
  return v;
#endif
}

// 2^(i / kVector) less i / kVector in the exponent, as bits.
inline IntVector root_bits() {
  constexpr std::int32_t kBits[16] = {0x3f800000, 0x3f85aac3, 0x3f8b95c2, 0x3f91c3d3, 0x3f9837f0, 0x3f9ef532,
                                      0x3fa5fed7, 0x3fad583f, 0x3fb504f3, 0x3fbd08a4, 0x3fc5672a, 0x3fce248c,
                                      0x3fd744fd, 0x3fe0ccdf, 0x3feac0c7, 0x3ff5257d};
  return [kBits]<std::size_t... L>(std::index_sequence<L...>) {
    return IntVector{(kBits[L * 16 / kVector] - static_cast<std::int32_t>(L * ((1u << 23) / kVector)))...};
  }
  (std::make_index_sequence<kVector>());
}

// 2^x for x up to 127, 2^-126 below that, and NaN for NaN: x = n / kVector + r, and 2^(n / kVector) is a root's bits with n added to the
// exponent. Cheaper than exp_of(), whose argument is exact: the polynomial of degree 3 on |r| <= 1/16 errs by 3e-8, all together by 1.5e-7.
[[gnu::always_inline]] inline FloatVector exp2_of(const FloatVector& x) {
  constexpr float kRoundRoots = kRound / static_cast<float>(kVector);  // rounds to a multiple of 1 / kVector
  const FloatVector clamped = larger(all(-126.0f), x), shifted = clamped + kRoundRoots,
                    r = clamped - (shifted - kRoundRoots);
  const IntVector n = reinterpret_cast<IntVector>(shifted);  // in its low bits
  const IntVector bits = picked(root_bits(), n) + (n << (kVector == 16 ? 19 : 20));
  const FloatVector root = reinterpret_cast<FloatVector>(bits);
  return root + root * r * ((0.0555106178f * r + 0.240257636f) * r + 0.693147182f);
}

inline FloatVector sigmoid_of(const FloatVector& x) {  // 6e-39 below -88
  return 1.0f / (1.0f + exp_of(-larger(all(-88.0f), x)));
}

// ln(1 + e^x) = max(x, 0) + ln(1 + e^-|x|), and its slope, which is the sigmoid. Errors are a few ulp, also where the value is small.
struct Softplus {
  FloatVector value, slope;
};
[[gnu::always_inline]] inline Softplus softplus_of(const FloatVector& x) {
  const FloatVector e = exp_of(-larger(-x, x));
  const IntVector halved = e > all(0.41421356f);  // then 1 + e is 2 (1 + f)
  const FloatVector f = halved ? (e - 1.0f) * 0.5f : e, more = halved ? all(0.693147181f) : FloatVector{};
  return {larger(all(0), x) + (log1p_reduced(f) + more), (x < FloatVector{} ? e : all(1)) / (1.0f + e)};
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
