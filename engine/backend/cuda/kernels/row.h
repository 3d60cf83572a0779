// One row of a [rows, cols] tensor in the registers of a block (or of a warp, where one is enough), and reductions over it. Sums are taken
// in a fixed order: the same row gives the same bits every time.
#pragma once
#include <algorithm>
#include <limits>

#include "engine/backend/cuda/kernels/launch_shape.h"
#include "engine/backend/cuda/kernels/vector.h"

namespace mbench::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;
inline constexpr float kLowest = -std::numeric_limits<float>::infinity();
inline constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
// Vectors of a row that a thread keeps. Rows that are too long, or do not consist of whole vectors, have Items = 0: every pass reads them
// again, one element at a time.
inline constexpr int kItems = 4;

// A block of at most `most` threads for each row, or a warp if that is enough. Then a block has four warps.
inline Launch row_shape(std::int64_t rows, std::int64_t cols, int width, int most) {
  const std::int64_t vectors = (cols + width - 1) / width, wanted = (vectors + kItems - 1) / kItems;
  const std::int64_t warps = std::clamp<std::int64_t>((wanted + kWarp - 1) / kWarp, 1, most / kWarp);
  Launch shape;
  shape.block_x = static_cast<unsigned>(warps * kWarp);
  shape.block_y = warps == 1 ? 4 : 1;
  shape.grid_x = static_cast<unsigned>((rows + shape.block_y - 1) / shape.block_y);
  return shape;
}

// Whether rows of `cols` elements fit the registers of `most` threads as whole vectors.
inline bool row_fits(std::int64_t cols, int width, int most) {
  return cols % width == 0 && cols <= static_cast<std::int64_t>(most) * kItems * width;
}

__device__ inline std::int64_t own_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// f(item, first column) for each vector of the row that this thread owns.
template <int V, int Items, class F>
__device__ inline void for_row(std::int64_t cols, F&& f) {
  if constexpr (Items > 0) {
#pragma unroll
    for (int item = 0; item < Items; ++item) {
      const std::int64_t col = (static_cast<std::int64_t>(item) * blockDim.x + threadIdx.x) * V;
      if (col < cols) f(item, col);
    }
  } else {
    for (std::int64_t col = static_cast<std::int64_t>(threadIdx.x) * V; col < cols; col += blockDim.x * V) f(0, col);
  }
}

// A row as stored, kept in registers if Items > 0.
template <class T, int V, int Items>
class Row {
 public:
  __device__ Row(const T* row, std::int64_t cols) : row_(row) {
    if constexpr (Items > 0)
      for_row<V, Items>(cols, [&](int item, std::int64_t col) { kept_[item] = load_pack<V>(row_ + col); });
  }
  __device__ Floats<V> at(int item, std::int64_t col) const {
    if constexpr (Items > 0) return floats_of(kept_[item]);
    return load<V>(row_ + col);
  }

 private:
  const T* row_;
  Pack<T, V> kept_[Items > 0 ? Items : 1];
};

struct Pair {
  float a, b;
};

struct Sum {
  template <class T>
  __device__ T operator()(T x, T y) const {
    return x + y;
  }
  __device__ Pair operator()(Pair x, Pair y) const { return {x.a + y.a, x.b + y.b}; }
};

struct Max {  // NaN is skipped
  __device__ float operator()(float x, float y) const { return y > x ? y : x; }
};

template <class T>
__device__ inline T from_lane_xor(T x, int mask) {
  return __shfl_xor_sync(kAllLanes, x, mask);
}
__device__ inline Pair from_lane_xor(Pair x, int mask) {
  return {__shfl_xor_sync(kAllLanes, x.a, mask), __shfl_xor_sync(kAllLanes, x.b, mask)};
}

template <class T, class Combine>
__device__ inline T warp_reduce(T x, Combine combine) {
#pragma unroll
  for (int mask = kWarp / 2; mask > 0; mask /= 2) x = combine(x, from_lane_xor(x, mask));
  return x;
}

// Reduces over the threads of a row; each of them gets the result. `parts` may be reused at once.
template <class T, class Combine>
__device__ inline T row_reduce(T x, T nothing, SharedArray<T, kWarp>& parts, Combine combine) {
  x = warp_reduce(x, combine);
  if (blockDim.x == kWarp) return x;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  __syncthreads();  // the parts of an earlier reduction have been read
  if (lane == 0) parts[warp] = x;
  __syncthreads();
  return warp_reduce(lane < static_cast<int>(blockDim.x) / kWarp ? parts[lane] : nothing, combine);
}

}  // namespace mbench::cuda
