// The vocabulary of kernels. nvcc has it built in. A C++ compiler takes it from the tests' emulator (test/simt/simt_host.h, found through
// the include path). So every kernel also runs, and is tested, without a GPU.
//
// Kernels use only what both have. Blocks are 1-d or 2-d and of whole warps. There are __syncthreads, __syncwarp, full-mask shuffles and
// ballots, SharedArray and dynamic_shared() for shared memory. Integer atomics must give the same result in any order.
#pragma once
#include <cstdint>

#include "engine/base/half_types.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace mbench::cuda {

// Converts one stored element to f32, and an f32 to a stored element, rounded to nearest even.
__device__ inline float to_f32(float x) {
  return x;
}
__device__ inline float to_f32(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ inline float to_f32(f16 x) {
  return __half2float(__ushort_as_half(x.bits));
}

template <class T>
__device__ T from_f32(float x);
template <>
__device__ inline float from_f32<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 from_f32<bf16>(float x) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
}
template <>
__device__ inline f16 from_f32<f16>(float x) {
  return {__half_as_ushort(__float2half_rn(x))};
}

// An array in the block's static shared memory: `__shared__ SharedArray<float, 32> parts;`.
template <class T, int N>
struct SharedArray {
  T items[N];
  __device__ T& operator[](int i) { return items[i]; }
};

// The block's dynamic shared memory.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char bytes[];
  return reinterpret_cast<T*>(bytes);
}

// Stores `Bytes` from registers to aligned memory, in as few instructions as possible. Written out because nvcc otherwise splits some
// vector stores (but not loads).
template <int Bytes>
__device__ inline void store_bytes(void* to, const void* from) {
  static_assert(Bytes <= 4 || Bytes == 8 || Bytes % 16 == 0);
  if constexpr (Bytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < Bytes / 16; ++i) {
      uint4 word;
      memcpy(&word, static_cast<const char*>(from) + 16 * i, 16);
      __stwb(static_cast<uint4*>(to) + i, word);
    }
  } else if constexpr (Bytes == 8) {
    uint2 word;
    memcpy(&word, from, 8);
    __stwb(static_cast<uint2*>(to), word);
  } else {
    memcpy(to, from, Bytes);
  }
}

// The emulator throws where an access of `Bytes` at `at` would fault.
template <int Bytes>
__device__ inline void need_aligned(const void*) {}

// Precise to about 2 ulp, in a few instructions: for results that are rounded to 16 bits.
__device__ inline float quick_exp(float x) {
  return __expf(x);
}
__device__ inline float quick_divide(float a, float b) {
  return __fdividef(a, b);
}

}  // namespace mbench::cuda
#else
#include <simt_host.h>
#endif

namespace mbench::cuda {

// exp and division, as precise as results stored as T need them.
template <class T>
__device__ inline float exp_for(float x) {
  if constexpr (sizeof(T) == 2) return quick_exp(x);
  return expf(x);
}
template <class T>
__device__ inline float divide_for(float a, float b) {
  if constexpr (sizeof(T) == 2) return quick_divide(a, b);
  return a / b;
}

}  // namespace mbench::cuda
