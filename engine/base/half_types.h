// Storage of 16-bit floating-point elements: their bits only, so that compilers without such types accept it too (half.h converts).
#pragma once
#include <cstdint>

namespace mbench {

struct bf16 {
  std::uint16_t bits;
};
struct f16 {
  std::uint16_t bits;
};

}  // namespace mbench
