// Parts of matrices that are quantised by blocks of 128 x 128. A thread block finds the maximum of each matrix block that overlaps a part,
// and is the only one to write it.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/fp8_parts.h"

namespace mbench::cuda {

template <class T>
struct BlockMaximaArguments {
  const T* x;
  float* amax;
  std::int64_t rows, cols, first, n, top, bottom, ld;  // block rows from top to bottom, without bottom
};
template <class T>
__global__ void __launch_bounds__(kFlatThreads) block_maxima(BlockMaximaArguments<T> a) {
  constexpr std::int64_t kBlock = ops::QuantiseBlocks::kBlock;
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t across = (a.cols + kBlock - 1) / kBlock;
  for (std::int64_t at = blockIdx.x; at < across * (a.bottom - a.top); at += gridDim.x) {
    const std::int64_t down = a.top + at / across, row0 = down * kBlock, col0 = at % across * kBlock;
    const std::int64_t rows = row0 + kBlock < a.rows ? kBlock : a.rows - row0;
    const std::int64_t cols = col0 + kBlock < a.cols ? kBlock : a.cols - col0;
    float most = 0;
    for (std::int64_t i = threadIdx.x; i < rows * cols; i += blockDim.x) {
      const std::int64_t e = (row0 + i / cols) * a.cols + col0 + i % cols - a.first;
      if (e < 0 || e >= a.n) continue;
      const float size = fabsf(to_f32(a.x[e]));
      most = size > most ? size : most;
    }
    most = row_reduce(most, 0.0f, parts, Max());
    float& amax = a.amax[down * a.ld + at % across];
    if (threadIdx.x == 0 && most > amax) amax = most;
  }
}

template <class T>
struct QuantisePartEach {
  static constexpr int kWidth = 1;
  const T* x;
  const float* scale;
  std::uint8_t* y;
  std::int64_t cols, first, ld;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    constexpr std::int64_t kBlock = ops::QuantiseBlocks::kBlock;
    const std::int64_t e = first + i, row = e / cols, col = e % cols;
    y[i] = fp8_from_float<e4m3>(scale[row / kBlock * ld + col / kBlock] * to_f32(x[i]));
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::BlockMaxima& op) {
  const std::int64_t n = op.x.numel();
  if (n == 0) return;
  const std::int64_t last = (op.first + n - 1) / op.cols, top = op.first / op.cols / ops::QuantiseBlocks::kBlock,
                     bottom = last / ops::QuantiseBlocks::kBlock + 1;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    Launch shape;
    shape.block_x = kFlatThreads;
    shape.grid_x = static_cast<unsigned>(
        std::clamp<std::int64_t>(ops::QuantiseBlocks::blocks(op.cols) * (bottom - top), 1, kEnoughBlocks));
    stream.launch(op.name, shape, block_maxima<T>,
                  BlockMaximaArguments<T>{pointer<T>(op.x), pointer<float>(op.amax), op.rows, op.cols, op.first, n, top,
                                          bottom, op.amax.shape()[1]});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::QuantisePart& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(),
                QuantisePartEach<T>{pointer<T>(op.x), pointer<float>(op.scale), pointer<std::uint8_t>(op.y), op.cols,
                                    op.first, op.scale.shape()[1]});
  });
}

}  // namespace mbench::cuda
