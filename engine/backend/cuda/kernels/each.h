// Kernels that compute each element from the same element of other tensors, over flat tensors or over [rows, cols]. An op is a small struct
// of pointers and constants:
//
//   struct MyOp {
//     static constexpr int kWidth = width_of<T>();             // elements of a vector
//     bool aligned() const;                                    // host: whether vectors may be used
//     template <int V> __device__ void apply(int64 i) const;   // flat: elements i ... i + V - 1.
//     // rows: what a thread keeps of its columns, and one row's part
//     template <int V> __device__ auto column(int64 col) const;
//     template <int V> __device__ void apply(const auto& kept, int64 row, int64 col) const;
//   };
#pragma once
#include <algorithm>
#include <string_view>

#include "engine/backend/cuda/kernels/launch_shape.h"
#include "engine/backend/cuda/kernels/vector.h"

namespace mbench::cuda {

inline constexpr int kFlatThreads = 256, kColumnThreads = 128;
// Enough blocks to fill any current GPU several times over. Beyond this, blocks walk in strides.
inline constexpr std::int64_t kEnoughBlocks = 4096;

inline Launch flat_shape(std::int64_t n, int width) {
  const std::int64_t vectors = (n + width - 1) / width, blocks = (vectors + kFlatThreads - 1) / kFlatThreads;
  Launch shape;
  shape.grid_x = static_cast<unsigned>(std::min(blocks, kEnoughBlocks));
  shape.block_x = kFlatThreads;
  return shape;
}

// A thread owns `width` columns and walks down the rows; for narrow tensors, a block takes several rows.
inline Launch column_shape(std::int64_t rows, std::int64_t cols, int width) {
  const std::int64_t vectors = (cols + width - 1) / width;
  Launch shape;
  shape.block_x = 1;
  while (shape.block_x < vectors && shape.block_x < kColumnThreads) shape.block_x *= 2;
  shape.block_y = kColumnThreads / shape.block_x;
  shape.grid_x = static_cast<unsigned>((vectors + shape.block_x - 1) / shape.block_x);
  const std::int64_t needed = (rows + shape.block_y - 1) / shape.block_y;
  const std::int64_t enough = std::max<std::int64_t>(1, kEnoughBlocks / std::max(1u, shape.grid_x));
  shape.grid_y = static_cast<unsigned>(std::min(needed, enough));
  return shape;
}

template <int V, class Op>
__global__ void __launch_bounds__(kFlatThreads) each_flat(std::int64_t n, Op op) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = n / V * V;
  for (std::int64_t i = thread * V; i < whole; i += threads * V) op.template apply<V>(i);
  if constexpr (V > 1)
    for (std::int64_t i = whole + thread; i < n; i += threads) op.template apply<1>(i);
}

template <int V, class Op>
__global__ void __launch_bounds__(kColumnThreads) each_column(std::int64_t rows, std::int64_t cols, Op op) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (col >= cols) return;
  const auto kept = op.template column<V>(col);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows; row += step)
    op.template apply<V>(kept, row, col);
}

template <class Stream, class Op>
void launch_flat(Stream& stream, std::string_view name, std::int64_t n, const Op& op) {
  constexpr int V = Op::kWidth;
  if (n == 0) return;
  if (op.aligned())
    stream.launch(name, flat_shape(n, V), each_flat<V, Op>, n, op);
  else
    stream.launch(name, flat_shape(n, 1), each_flat<1, Op>, n, op);
}

template <class Stream, class Op>
void launch_columns(Stream& stream, std::string_view name, std::int64_t rows, std::int64_t cols, const Op& op) {
  constexpr int V = Op::kWidth;
  if (rows == 0 || cols == 0) return;
  if (cols % V == 0 && op.aligned())
    stream.launch(name, column_shape(rows, cols, V), each_column<V, Op>, rows, cols, op);
  else
    stream.launch(name, column_shape(rows, cols, 1), each_column<1, Op>, rows, cols, op);
}

}  // namespace mbench::cuda
