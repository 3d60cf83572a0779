// bf16 and f16 storage with f32 arithmetic: conversions of single elements, round to nearest even.
#pragma once
#include <bit>
#include <cstdint>

#include "engine/base/half_types.h"

namespace mbench {

inline float to_float(float x) {
  return x;
}
inline float to_float(bf16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
inline float to_float(f16 x) {
  return static_cast<float>(std::bit_cast<_Float16>(x.bits));
}

template <class T>
T from_float(float x);
template <>
inline float from_float<float>(float x) {
  return x;
}
template <>
inline bf16 from_float<bf16>(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<std::uint16_t>((u >> 16) | 0x40u)};  // a quiet NaN
  return {static_cast<std::uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}
template <>
inline f16 from_float<f16>(float x) {
  return {std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))};
}

}  // namespace mbench
