// The second stage of sums over rows, the gradients of what every row shares. The first stage leaves one partial sum of every column for
// each chunk of rows, in scratch. This stage adds them in a fixed order.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/launch_shape.h"
#include "engine/backend/cuda/kernels/simt.h"

namespace mbench::cuda {

// The first stage: how rows are cut into chunks.
struct ColumnSums {
  Launch shape;
  std::int64_t chunk_rows, chunks;
};

// Chunks depend on the shape only: at least 16 rows each, and no more than keep the GPU busy.
inline ColumnSums column_sums(std::int64_t rows, std::int64_t cols, int width) {
  const std::int64_t vectors = (cols + width - 1) / width;
  ColumnSums plan;
  plan.shape.block_x = static_cast<unsigned>(std::min<std::int64_t>(kColumnThreads, (vectors + 31) / 32 * 32));
  plan.shape.grid_x = static_cast<unsigned>((vectors + plan.shape.block_x - 1) / plan.shape.block_x);
  const std::int64_t most = std::clamp<std::int64_t>(2048 / plan.shape.grid_x, 1, 512);
  plan.chunk_rows = std::max<std::int64_t>(16, (rows + most - 1) / most);
  plan.chunks = (rows + plan.chunk_rows - 1) / plan.chunk_rows;
  plan.shape.grid_y = static_cast<unsigned>(plan.chunks);
  return plan;
}

inline constexpr int kAddColumns = 32,
                     kAddLines = 8;  // of a block: columns, and chunks read at the same time

inline Launch add_chunks_shape(std::int64_t cols, bool second) {
  Launch shape;
  shape.grid_x = static_cast<unsigned>((cols + kAddColumns - 1) / kAddColumns);
  shape.grid_y = second ? 2 : 1;
  shape.block_x = kAddColumns;
  shape.block_y = kAddLines;
  return shape;
}

// first[j] += sum over chunks of partial[chunk * stride + j], j < cols. The blocks of grid row 1 do the same for `second`, with the partial
// sums `cols` further on.
template <class TA, class TB>
__global__ void __launch_bounds__(kAddColumns* kAddLines)
    add_chunks(const float* partial, std::int64_t chunks, std::int64_t stride, std::int64_t cols, TA* first,
               TB* second) {
  __shared__ SharedArray<float, kAddColumns * kAddLines> parts;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kAddColumns + threadIdx.x;
  const int line = static_cast<int>(threadIdx.y), lane = static_cast<int>(threadIdx.x);
  float sum = 0;
  if (col < cols) {
    const float* from = partial + (blockIdx.y == 1 ? cols : 0) + col;
#pragma unroll 4
    for (std::int64_t chunk = line; chunk < chunks; chunk += kAddLines) sum += from[chunk * stride];
  }
  parts[line * kAddColumns + lane] = sum;
  __syncthreads();
  if (line > 0 || col >= cols) return;
  for (int other = 1; other < kAddLines; ++other) sum += parts[other * kAddColumns + lane];
  if (blockIdx.y == 1)
    second[col] = from_f32<TB>(to_f32(second[col]) + sum);
  else
    first[col] = from_f32<TA>(to_f32(first[col]) + sum);
}

}  // namespace mbench::cuda
