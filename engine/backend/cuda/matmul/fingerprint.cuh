// A fingerprint shows whether two results are equal bit by bit, without keeping either. It is a sum over elements of a hash of position and
// bits. Integer sums have no order, so equal results give equal fingerprints.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/base/dtype.h"

namespace mbench::cuda {

inline constexpr std::int64_t kPrintBlocks = 1024;

// A bijection of 64 bits, after splitmix64's finaliser.
__device__ inline std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// `Bits`: as wide as an element; `exponent`: the bits of its exponent, all set in infinities and NaNs. V elements are read at once.
template <class Bits, int V, class Print>
__global__ void __launch_bounds__(kFlatThreads)
    print_elements(const Bits* x, std::int64_t n, Bits exponent, Print* partial) {
  __shared__ SharedArray<std::uint64_t, kWarp> parts;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::uint64_t hash = 0, informative = 0;
  const auto look = [&](std::int64_t i, Bits bits) {
    hash += scramble(static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15u + bits);
    const bool zero = static_cast<Bits>(bits << 1) == 0;
    informative += !zero && (bits & exponent) != exponent ? 1 : 0;
  };
  const std::int64_t whole = n / V * V;
  for (std::int64_t i = thread * V; i < whole; i += threads * V) {
    const Pack<Bits, V> pack = load_pack<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) look(i + k, pack.v[k]);
  }
  for (std::int64_t i = whole + thread; i < n; i += threads) look(i, x[i]);
  hash = row_reduce(hash, std::uint64_t{0}, parts, Sum());
  informative = row_reduce(informative, std::uint64_t{0}, parts, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = {hash, informative};
}

inline Launch print_shape(std::int64_t n) {
  Launch shape = flat_shape(n, 1);
  shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, kPrintBlocks));
  return shape;
}

// Leaves in `partial` one Fingerprint (fingerprint.h: hash, informative) for each block, at most kPrintBlocks. Their sums are the
// fingerprint of the n elements at `x`.
template <class Stream, class Print>
void enqueue_fingerprint(Stream& stream, std::string_view name, const void* x, DType type, std::int64_t n,
                         Print* partial) {
  const auto launch = [&]<class Bits>(const Bits* bits, Bits exponent) {
    constexpr int V = 16 / sizeof(Bits);
    stream.launch(name, print_shape(n),
                  aligned<V>(bits) ? print_elements<Bits, V, Print> : print_elements<Bits, 1, Print>, bits, n, exponent,
                  partial);
  };
  if (size_of(type) == 4)
    launch(static_cast<const std::uint32_t*>(x), std::uint32_t{0x7F800000});
  else
    launch(static_cast<const std::uint16_t*>(x), static_cast<std::uint16_t>(type == DType::bf16 ? 0x7F80 : 0x7C00));
}

}  // namespace mbench::cuda
