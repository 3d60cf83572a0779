// Philox words of consecutive elements, many blocks at a time: equal to Philox::word of each.
#pragma once
#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include <cstring>

#include "engine/base/philox.h"

namespace mbench::cpu {

// Philox blocks computed in parallel, one in each 64-bit lane of a register.
#if defined(__AVX512F__)
inline constexpr int kBlocks = 8;
#elif defined(__AVX2__)
inline constexpr int kBlocks = 4;
#else
inline constexpr int kBlocks = 2;
#endif
inline constexpr int kWords = 4 * kBlocks;
// Floats or words beyond `count` that a buffer needs for draw().
inline constexpr int kDrawSlack = kWords + 4;

typedef std::uint64_t Lanes __attribute__((vector_size(8 * kBlocks)));

// The low 32 bits of each lane of a times those of b, as 64 bits.
inline Lanes multiply_low(Lanes a, Lanes b) {
#if defined(__AVX512F__)
  // The zero-masked form with a full mask: the plain one makes GCC 12 warn of an undefined operand.
  return reinterpret_cast<Lanes>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Lanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  return (a & 0xFFFFFFFFull) * (b & 0xFFFFFFFFull);
#endif
}

// What stays the same from block to block: the keys of the rounds, site and step.
struct PhiloxKeys {
  explicit PhiloxKeys(const RngKey& key) : site(Lanes{} + key.counter_site()), step(Lanes{} + key.step) {
    std::uint32_t low = key.key_low(), high = key.key_high();
    for (int round = 0; round < 10; ++round) {
      k0[round] = Lanes{} + low;
      k1[round] = Lanes{} + high;
      low += Philox::kWeyl0;
      high += Philox::kWeyl1;
    }
  }
  Lanes k0[10], k1[10], site, step;
};

// The words of blocks first ... first + kBlocks - 1. Only the low half of a lane is meaningful until the end.
inline void philox_blocks(const PhiloxKeys& keys, std::uint64_t first, std::uint32_t* out) {
#if defined(__AVX512F__)
  Lanes c0 = first + Lanes{0, 1, 2, 3, 4, 5, 6, 7};
#elif defined(__AVX2__)
  Lanes c0 = first + Lanes{0, 1, 2, 3};
#else
  Lanes c0 = first + Lanes{0, 1};
#endif
  Lanes c1 = c0 >> 32, c2 = keys.site, c3 = keys.step;
  const Lanes mul0 = Lanes{} + Philox::kMul0, mul1 = Lanes{} + Philox::kMul1;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Lanes p0 = multiply_low(c0, mul0), p1 = multiply_low(c2, mul1);
    c0 = (p1 >> 32) ^ c1 ^ keys.k0[round];
    c2 = (p0 >> 32) ^ c3 ^ keys.k1[round];
    c1 = p1;
    c3 = p0;
  }
  const Lanes low = (c0 & 0xFFFFFFFFull) | (c1 << 32), high = (c2 & 0xFFFFFFFFull) | (c3 << 32);
#if defined(__AVX512F__)
  const Lanes first_half = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11);
  const Lanes second_half = __builtin_shufflevector(low, high, 4, 12, 5, 13, 6, 14, 7, 15);
#elif defined(__AVX2__)
  const Lanes first_half = __builtin_shufflevector(low, high, 0, 4, 1, 5);
  const Lanes second_half = __builtin_shufflevector(low, high, 2, 6, 3, 7);
#else
  const Lanes first_half = __builtin_shufflevector(low, high, 0, 2);
  const Lanes second_half = __builtin_shufflevector(low, high, 1, 3);
#endif
  std::memcpy(out, &first_half, sizeof first_half);
  std::memcpy(out + kWords / 2, &second_half, sizeof second_half);
}

// The words of elements element ... element + count - 1, inside `buffer` (count + kDrawSlack words long).
inline const std::uint32_t* draw(const PhiloxKeys& keys, std::uint64_t element, std::int64_t count,
                                 std::uint32_t* buffer) {
  const std::int64_t lead = static_cast<std::int64_t>(element & 3);
  std::uint64_t block = element >> 2;
  std::int64_t i = 0;
  do {
    philox_blocks(keys, block, buffer + i);
    block += kBlocks;
    i += kWords;
  } while (i < lead + count);
  return buffer + lead;
}

}  // namespace mbench::cpu
