// Subnormal numbers as zeros on the thread that holds one: x86 computes with them a hundred times slower. Decays of a scan become so small
// within a chunk that most of what is multiplied by them would be subnormal.
#pragma once
#include <cstdint>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace mbench::cpu {

class FlushDenormals {
 public:
  FlushDenormals() : before_(mode()) { set(before_ | kFlush); }
  ~FlushDenormals() { set(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE__)
  static constexpr std::uint64_t kFlush = 0x8040;  // MXCSR: results (FTZ) and operands (DAZ)
  static std::uint64_t mode() {
    return _mm_getcsr();
  }
  static void set(std::uint64_t mode) {
    _mm_setcsr(static_cast<unsigned>(mode));
  }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = std::uint64_t{1} << 24;  // FPCR: FZ
  static std::uint64_t mode() {
    std::uint64_t mode = 0;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
  }
  static void set(std::uint64_t mode) {
    asm volatile("msr fpcr, %0" ::"r"(mode));
  }
#else
  static constexpr std::uint64_t kFlush = 0;
  static std::uint64_t mode() {
    return 0;
  }
  static void set(std::uint64_t) {}
#endif
  std::uint64_t before_;
};

}  // namespace mbench::cpu
