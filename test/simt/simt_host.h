// The words of CUDA for a C++ compiler: what kernels that include kernels/simt.h find instead of nvcc's own.
// Threads are fibers of test/simt/block.h. Shared memory starts as NaN in every block, and an index beyond a
// SharedArray throws.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/base/half.h"
#include "test/simt/block.h"

#define __global__ inline
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

inline void __syncthreads(std::source_location at = std::source_location::current()) {
  simt::Block::current().wait_block(at);
}
inline void __syncwarp(unsigned mask = 0xFFFFFFFFu, std::source_location at = std::source_location::current()) {
  simt::Block::current().exchange(0, mask, at);
}

namespace simt {

template <class T>
T from_lane(unsigned mask, T value, unsigned lane, const std::source_location& at) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const std::uint64_t* all = Block::current().exchange(bits, mask, at);
  std::memcpy(&value, &all[lane], sizeof(T));
  return value;
}

}  // namespace simt

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, std::source_location at = std::source_location::current()) {
  return simt::from_lane(mask, value, static_cast<unsigned>(lane) % 32, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, std::source_location at = std::source_location::current()) {
  return simt::from_lane(mask, value, (simt::Block::current().lane() ^ static_cast<unsigned>(lanes)) % 32, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, std::source_location at = std::source_location::current()) {
  const unsigned lane = simt::Block::current().lane();
  return simt::from_lane(mask, value, lane + by < 32 ? lane + by : lane, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, std::source_location at = std::source_location::current()) {
  const std::uint64_t* all = simt::Block::current().exchange(predicate != 0 ? 1 : 0, mask, at);
  unsigned lanes = 0;
  for (unsigned i = 0; i < 32; ++i) lanes |= static_cast<unsigned>(all[i]) << i;
  return lanes;
}
// Stops the device: the stream's next wait fails.
[[noreturn]] inline void __trap() {
  mbench::fail(mbench::ErrorKind::internal, "simt", "the kernel trapped");
}
inline int __popc(unsigned x) {
  return std::popcount(x);
}

// One thread runs at a time.
template <class T>
T atomicAdd(T* at, T value) {
  const T was = *at;
  *at += value;
  return was;
}
template <class T>
T atomicMax(T* at, T value) {
  const T was = *at;
  if (value > was) *at = value;
  return was;
}

namespace mbench::cuda {

template <class T>
float to_f32(T x) {
  return to_float(x);
}
template <class T>
T from_f32(float x) {
  return from_float<T>(x);
}
template <int Bytes>
void need_aligned(const void* at) {
  if (reinterpret_cast<std::uintptr_t>(at) % Bytes != 0)
    fail(ErrorKind::internal, "simt", "address of a vector, got {}, need a multiple of {}", at, Bytes);
}
template <int Bytes>
void store_bytes(void* to, const void* from) {
  std::memcpy(to, from, Bytes);
}
inline float quick_exp(float x) {
  return expf(x);
}
inline float quick_divide(float a, float b) {
  return a / b;
}

template <class T, int N>
struct SharedArray {
  T items[N];
  std::uint64_t block = 0;  // that used it last
  T& operator[](int i) {
    simt::Block& own = simt::Block::current();
    if (block != own.number()) {
      block = own.number();
      own.add_static(sizeof items);
      std::memset(static_cast<void*>(items), 0xFF, sizeof items);
    }
    if (i < 0 || i >= N) fail(ErrorKind::internal, "simt", "index into shared memory, got {}, need 0 ... {}", i, N - 1);
    return items[i];
  }
};

// As SharedArray, over the dynamic shared memory of the block.
template <class T>
class DynamicShared {
 public:
  T& operator[](std::int64_t i) const {
    simt::Block& own = simt::Block::current();
    const auto count = static_cast<std::int64_t>(own.dynamic_bytes() / sizeof(T));
    if (i < 0 || i >= count)
      fail(ErrorKind::internal, "simt", "index into dynamic shared memory, got {}, need below {}", i, count);
    return reinterpret_cast<T*>(own.dynamic_shared())[i];
  }
};
template <class T>
DynamicShared<T> dynamic_shared() {
  return {};
}

}  // namespace mbench::cuda
