// Weights in 4 bits, and their scales in 8. A warp quantises a block of 64 elements: each thread makes a byte.
#pragma once
#include <cmath>

#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/nf4.h"

namespace mbench::cuda {

static_assert(ops::kNf4Block == 2 * kWarp, "a warp has a block");
inline constexpr int kNf4Warps = 4;

// The values in shared memory: codes that differ lie in banks that differ.
using Nf4Values = SharedArray<float, 16>;
__device__ inline void fill(Nf4Values& values) {
  const auto thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (thread < 16) values[thread] = ops::nf4_value(thread);
  __syncthreads();
}

template <class T>
struct QuantiseNf4Arguments {
  const T* x;
  std::uint8_t* codes;
  float* scales;
  std::int64_t n, blocks;
};

template <class T>
__global__ void __launch_bounds__(kWarp* kNf4Warps) quantise_nf4(QuantiseNf4Arguments<T> a) {
  __shared__ Nf4Values values;
  fill(values);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t block = own_row(); block < a.blocks; block += step) {
    const std::int64_t i = block * ops::kNf4Block + 2 * threadIdx.x;
    const float first = i < a.n ? to_f32(a.x[i]) : 0.0f, second = i + 1 < a.n ? to_f32(a.x[i + 1]) : 0.0f;
    const float most = fabsf(first) > fabsf(second) ? fabsf(first) : fabsf(second);
    const float scale = warp_reduce(most, Max()), multiplier = ops::nf4_multiplier(scale);
    if (i < a.n) {
      const int low = i + 1 < a.n ? ops::nf4_code(&values[0], second * multiplier) : 0;
      a.codes[i / 2] = static_cast<std::uint8_t>(ops::nf4_code(&values[0], first * multiplier) << 4 | low);
    }
    if (threadIdx.x == 0) a.scales[block] = scale;
  }
}

template <class T>
struct DequantiseNf4Arguments {
  const std::uint8_t* codes;
  const float* scales;
  T* y;
  std::int64_t n;
};

// V elements from i on: they lie in one block, and begin with a whole byte.
template <int V, class T>
__device__ inline void dequantise(const DequantiseNf4Arguments<T>& a, Nf4Values& values, std::int64_t i) {
  const float scale = a.scales[i / ops::kNf4Block];
  const Pack<std::uint8_t, V / 2> bytes = load_pack<V / 2>(a.codes + i / 2);
  Floats<V> z;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    const int byte = bytes.v[k / 2];
    z.v[k] = values[k % 2 == 0 ? byte >> 4 : byte & 15] * scale;
  }
  store(a.y + i, z);
}

template <class T, int V>
__global__ void __launch_bounds__(kFlatThreads) dequantise_nf4(DequantiseNf4Arguments<T> a) {
  __shared__ Nf4Values values;
  fill(values);
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x, whole = V == 1 ? 0 : a.n / V * V;
  if constexpr (V > 1)
    for (std::int64_t i = thread * V; i < whole; i += threads * V) dequantise<V>(a, values, i);
  for (std::int64_t i = whole + thread; i < a.n; i += threads) {
    const int byte = a.codes[i / 2];
    a.y[i] = from_f32<T>(values[i % 2 == 0 ? byte >> 4 : byte & 15] * a.scales[i / ops::kNf4Block]);
  }
}

struct ScalesArguments {
  const float* scales;
  std::uint8_t* codes;
  float *most, *mean;
  std::int64_t n, blocks;
};

// One block, whose threads sum in a fixed order.
template <int Threads>
__global__ void __launch_bounds__(Threads) mean_of_scales(ScalesArguments a) {
  __shared__ SharedArray<float, kWarp> parts;
  float sum = 0;
  for (std::int64_t i = threadIdx.x; i < a.n; i += blockDim.x) sum += a.scales[i];
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) *a.mean = sum / static_cast<float>(a.n);
}

template <int Threads>
__global__ void __launch_bounds__(Threads) quantise_scales(ScalesArguments a) {
  static_assert(Threads == ops::kScalesBlock, "a thread for each scale of a block");
  __shared__ SharedArray<float, Threads> values;
  __shared__ SharedArray<float, kWarp> parts;
  values[static_cast<int>(threadIdx.x)] = ops::dynamic_value(true, static_cast<int>(threadIdx.x));
  __syncthreads();
  for (std::int64_t block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    const std::int64_t i = block * Threads + threadIdx.x;
    const float scale = i < a.n ? a.scales[i] - *a.mean : 0.0f;
    const float most = row_reduce(fabsf(scale), 0.0f, parts, Max());
    if (i < a.n)
      a.codes[i] = static_cast<std::uint8_t>(ops::nearest_code(&values[0], scale * ops::nf4_multiplier(most)));
    if (threadIdx.x == 0) a.most[block] = most;
  }
}

struct DequantiseScalesEach {
  static constexpr int kWidth = 1;
  const std::uint8_t* codes;
  const float *most, *mean;
  float* scales;
  std::int64_t row, stride, first;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    scales[i] =
        ops::dynamic_value(true, codes[i]) * most[ops::DequantiseScales::block_of(i, row, stride, first)] + *mean;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::QuantiseNf4& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const QuantiseNf4Arguments<T> a{pointer<T>(op.x), pointer<std::uint8_t>(op.codes), pointer<float>(op.scales),
                                    op.x.numel(), op.scales.numel()};
    Launch shape;
    shape.grid_x = static_cast<unsigned>(std::min((a.blocks + kNf4Warps - 1) / kNf4Warps, kEnoughBlocks));
    shape.block_x = kWarp;
    shape.block_y = kNf4Warps;
    stream.launch(op.name, shape, quantise_nf4<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::DequantiseNf4& op) {
  if (op.y.numel() == 0) return;
  with_float(op.name, op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const DequantiseNf4Arguments<T> a{pointer<std::uint8_t>(op.codes), pointer<float>(op.scales), pointer<T>(op.y),
                                      op.y.numel()};
    if (aligned<V>(a.y) && aligned<V / 2>(a.codes))
      stream.launch(op.name, flat_shape(a.n, V), dequantise_nf4<T, V>, a);
    else
      stream.launch(op.name, flat_shape(a.n, 1), dequantise_nf4<T, 1>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::QuantiseScales& op) {
  if (op.scales.numel() == 0) return;
  const ScalesArguments a{pointer<float>(op.scales), pointer<std::uint8_t>(op.codes),
                          pointer<float>(op.most),   pointer<float>(op.mean),
                          op.scales.numel(),         op.most.numel()};
  Launch one;
  one.grid_x = 1;
  one.block_x = 1024;
  stream.launch("mean_of_scales", one, mean_of_scales<1024>, a);
  Launch shape;
  shape.grid_x = static_cast<unsigned>(std::min(a.blocks, kEnoughBlocks));
  shape.block_x = ops::kScalesBlock;
  stream.launch(op.name, shape, quantise_scales<ops::kScalesBlock>, a);
}

template <class Stream>
void enqueue(Stream& stream, const ops::DequantiseScales& op) {
  launch_flat(stream, op.name, op.scales.numel(),
              DequantiseScalesEach{pointer<std::uint8_t>(op.codes), pointer<float>(op.most), pointer<float>(op.mean),
                                   pointer<float>(op.scales), op.row, op.stride, op.first});
}

}  // namespace mbench::cuda
