// Element types of tensors: their size in bytes and their name in messages and files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mbench {

enum class DType : std::uint8_t { f32, bf16, f16, e4m3, e5m2, u8, i64 };

constexpr std::size_t size_of(DType t) {
  switch (t) {
    case DType::f32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::e4m3:
    case DType::e5m2:
    case DType::u8:
      return 1;
    case DType::i64:
      return 8;
  }
  return 0;
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    case DType::e4m3:
      return "e4m3";
    case DType::e5m2:
      return "e5m2";
    case DType::u8:
      return "u8";
    case DType::i64:
      return "i64";
  }
  return "?";
}

// A type that every op computes with; the 8-bit ones are for GEMMs only (fp8.h).
constexpr bool is_float(DType t) {
  return t == DType::f32 || t == DType::bf16 || t == DType::f16;
}

}  // namespace mbench
