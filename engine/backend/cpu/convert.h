// Storage types: picks the template for a dtype once per call. Every kernel computes on f32 buffers: rows move between them and 16-bit
// storage. With f32 storage, kernels work in place without the buffers.
#pragma once
#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#include "engine/base/dtype.h"
#include "engine/base/error.h"
#include "engine/base/half.h"

namespace mbench::cpu {

// f(T()) with the T that stores `t`.
template <class F>
void with_type(DType t, F&& f) {
  switch (t) {
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    default:
      fail(ErrorKind::internal, "cpu", "dtype, got {}, need a floating-point type", name_of(t));
  }
}

inline void to_floats(const float* from, float* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i];
}

inline void to_floats(const bf16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX2__)
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16)));
  }
#endif
  for (; i < n; ++i) to[i] = std::bit_cast<float>(std::uint32_t{from[i].bits} << 16);
}

inline void to_floats(const f16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(half));
  }
#endif
  for (; i < n; ++i) to[i] = to_float(from[i]);
}

inline void from_floats(const float* from, float* to, std::int64_t n) {
  to_floats(from, to, n);
}

inline void from_floats(const float* from, bf16* to, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {  // from_float<bf16> without its branch
    const auto u = std::bit_cast<std::uint32_t>(from[i]);
    const std::uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (u >> 16) | 0x40u;
    to[i].bits = static_cast<std::uint16_t>((u & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
  }
}

inline void from_floats(const float* from, f16* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
#endif
  for (; i < n; ++i) to[i] = from_float<f16>(from[i]);
}

// The n elements at `from` as floats: themselves, or converted into `buffer`.
inline const float* load(const float* from, float*, std::int64_t) {
  return from;
}
template <class T>
const float* load(const T* from, float* buffer, std::int64_t n) {
  to_floats(from, buffer, n);
  return buffer;
}

// Asks for the n elements at `from` in a cache. Pieces of rows lie far from each other, and the CPU's own prefetcher does not follow them.
template <bool kToWrite = false, class T>
void prefetch(const T* from, std::int64_t n) {
  constexpr auto kLine = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(from + i, kToWrite);
  asm volatile("");  // GCC drops calls of a function that does nothing else: it has no effect
}

// Where a kernel writes; store() then puts the result at `to`.
inline float* target(float* to, float*) {
  return to;
}
template <class T>
float* target(T*, float* buffer) {
  return buffer;
}
inline void store(const float*, float*, std::int64_t) {}
template <class T>
void store(const float* buffer, T* to, std::int64_t n) {
  from_floats(buffer, to, n);
}

}  // namespace mbench::cpu
