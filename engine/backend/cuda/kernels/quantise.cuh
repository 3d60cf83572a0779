// FP8 operands: maxima, scales, casts and transposes. A maximum is the same in any order; what blocks of threads found goes through
// scratch to a second kernel.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

inline constexpr int kCastTile = 32, kCastLines = 8;  // a block of 32 x 8 threads walks over tiles of 32 x 32
inline constexpr std::int64_t kScaleBlock = ops::QuantiseBlocks::kBlock;

template <class E>
__device__ inline std::uint8_t fp8_code(float x) {
  return fp8_from_float<E>(x);
}

// *to = the larger of it and what the blocks found. One block.
template <int Threads>
__global__ void __launch_bounds__(Threads) merge_maxima(const float* partial, std::int64_t count, float* to) {
  __shared__ SharedArray<float, kWarp> parts;
  float most = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) most = partial[i] > most ? partial[i] : most;
  most = row_reduce(most, 0.0f, parts, Max());
  if (threadIdx.x == 0 && most > *to) *to = most;
}

template <class T>
__global__ void __launch_bounds__(kFlatThreads) find_maxima(const T* x, std::int64_t n, float* partial) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  float most = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += threads) {
    const float size = fabsf(to_f32(x[i]));
    most = size > most ? size : most;
  }
  most = row_reduce(most, 0.0f, parts, Max());
  if (threadIdx.x == 0) partial[blockIdx.x] = most;
}

struct Fp8ScaleEach {
  static constexpr int kWidth = 1;
  const float* amax;
  float *scale, *inverse;
  float largest;
  bool power_of_two;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    const float s = ops::fp8_scale(amax[i], largest, power_of_two);
    scale[i] = s;
    inverse[i] = 1.0f / s;
  }
};

// A block for each tensor: the threads share its history out.
struct UpdateScalesArguments {
  float *amax, *history, *scale, *inverse;
  float largest;
  std::int64_t n, steps, row;
};
template <int Threads>
__global__ void __launch_bounds__(Threads) update_scales(UpdateScalesArguments a) {
  __shared__ SharedArray<float, kWarp> parts;
  for (std::int64_t i = blockIdx.x; i < a.n; i += gridDim.x) {
    const float now = a.amax[i];
    float most = now;
    for (std::int64_t step = threadIdx.x; step < a.steps; step += blockDim.x) {
      const float before = step == a.row ? now : a.history[step * a.n + i];
      most = before > most ? before : most;
    }
    most = row_reduce(most, 0.0f, parts, Max());
    if (threadIdx.x != 0) continue;
    a.history[a.row * a.n + i] = now;
    a.amax[i] = 0;
    if (most > 0) {
      const float s = ops::fp8_scale(most, a.largest);
      a.scale[i] = s;
      a.inverse[i] = 1.0f / s;
    }
  }
}

template <class T, class E>
struct QuantiseArguments {
  const T* x;
  const float* scale;
  std::uint8_t *y, *transposed;  // null: not wanted
  float* partial;                // [blocks], null: no maximum
  std::int64_t rows, cols;
};
template <class T, class E>
__global__ void __launch_bounds__(kCastTile* kCastLines) quantise(QuantiseArguments<T, E> a) {
  __shared__ SharedArray<std::uint8_t, kCastTile*(kCastTile + 1)> tile;
  __shared__ SharedArray<float, kCastLines> parts;
  const int lane = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  const std::int64_t across = (a.cols + kCastTile - 1) / kCastTile,
                     down = (a.rows + kCastTile - 1) / kCastTile;
  const float scale = *a.scale;
  float most = 0;
  for (std::int64_t at = blockIdx.x; at < across * down; at += gridDim.x) {
    const std::int64_t row0 = at / across * kCastTile, col0 = at % across * kCastTile;
    __syncthreads();  // the tile before has been written out
    for (int k = line; k < kCastTile; k += kCastLines) {
      const std::int64_t row = row0 + k, col = col0 + lane;
      if (row >= a.rows || col >= a.cols) continue;
      const float x = to_f32(a.x[row * a.cols + col]), size = fabsf(x);
      most = size > most ? size : most;
      const std::uint8_t code = fp8_code<E>(scale * x);
      if (a.y != nullptr) a.y[row * a.cols + col] = code;
      tile[k * (kCastTile + 1) + lane] = code;
    }
    __syncthreads();
    if (a.transposed == nullptr) continue;
    for (int k = line; k < kCastTile; k += kCastLines) {
      const std::int64_t row = row0 + lane, col = col0 + k;
      if (row < a.rows && col < a.cols) a.transposed[col * a.rows + row] = tile[lane * (kCastTile + 1) + k];
    }
  }
  if (a.partial == nullptr) return;
  most = warp_reduce(most, Max());
  if (lane == 0) parts[line] = most;
  __syncthreads();
  if (lane != 0 || line != 0) return;
  for (int k = 1; k < kCastLines; ++k) most = parts[k] > most ? parts[k] : most;
  a.partial[blockIdx.x] = most;
}

// As they stand: a warp for each block of 1 x 128.
template <class T, class E>
struct BlocksArguments {
  const T* x;
  std::uint8_t *y, *transposed;
  float *inverse, *transposed_inverse;
  std::int64_t rows, cols, ld, transposed_ld;  // the last two: of the scales of squares
};
template <class T, class E>
__global__ void __launch_bounds__(kFlatThreads) quantise_rows(BlocksArguments<T, E> a) {
  const std::int64_t across = (a.cols + kScaleBlock - 1) / kScaleBlock, warps = blockDim.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t at = blockIdx.x * warps + threadIdx.x / kWarp; at < a.rows * across;
       at += gridDim.x * warps) {
    const std::int64_t row = at / across, col0 = at % across * kScaleBlock;
    const std::int64_t end = col0 + kScaleBlock < a.cols ? col0 + kScaleBlock : a.cols;
    float most = 0;
    for (std::int64_t col = col0 + lane; col < end; col += kWarp) {
      const float size = fabsf(to_f32(a.x[row * a.cols + col]));
      most = size > most ? size : most;
    }
    most = warp_reduce(most, Max());
    const float scale = ops::fp8_scale(most, largest_of(DType::e4m3), true);
    for (std::int64_t col = col0 + lane; col < end; col += kWarp)
      a.y[row * a.cols + col] = fp8_code<E>(scale * to_f32(a.x[row * a.cols + col]));
    if (lane == 0) a.inverse[at % across * a.rows + row] = 1.0f / scale;
  }
}

// Transposed: a thread for each block of 128 x 1, neighbours on neighbouring columns.
template <class T, class E>
__global__ void __launch_bounds__(kFlatThreads) quantise_columns(BlocksArguments<T, E> a) {
  const std::int64_t down = (a.rows + kScaleBlock - 1) / kScaleBlock;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < a.cols * down;
       at += threads) {
    const std::int64_t col = at % a.cols, row0 = at / a.cols * kScaleBlock;
    const std::int64_t end = row0 + kScaleBlock < a.rows ? row0 + kScaleBlock : a.rows;
    float most = 0;
    for (std::int64_t row = row0; row < end; ++row) {
      const float size = fabsf(to_f32(a.x[row * a.cols + col]));
      most = size > most ? size : most;
    }
    const float scale = ops::fp8_scale(most, largest_of(DType::e4m3), true);
    for (std::int64_t row = row0; row < end; ++row)
      a.transposed[col * a.rows + row] = fp8_code<E>(scale * to_f32(a.x[row * a.cols + col]));
    a.transposed_inverse[at] = 1.0f / scale;
  }
}

// A thread block for each block of 128 x 128.
template <class T, class E>
__global__ void __launch_bounds__(kFlatThreads) quantise_squares(BlocksArguments<T, E> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t across = (a.cols + kScaleBlock - 1) / kScaleBlock,
                     down = (a.rows + kScaleBlock - 1) / kScaleBlock;
  for (std::int64_t at = blockIdx.x; at < across * down; at += gridDim.x) {
    const std::int64_t row0 = at / across * kScaleBlock, col0 = at % across * kScaleBlock;
    const std::int64_t rows = row0 + kScaleBlock < a.rows ? kScaleBlock : a.rows - row0;
    const std::int64_t cols = col0 + kScaleBlock < a.cols ? kScaleBlock : a.cols - col0;
    float most = 0;
    for (std::int64_t i = threadIdx.x; i < rows * cols; i += blockDim.x) {
      const float size = fabsf(to_f32(a.x[(row0 + i / cols) * a.cols + col0 + i % cols]));
      most = size > most ? size : most;
    }
    most = row_reduce(most, 0.0f, parts, Max());
    const float scale = ops::fp8_scale(most, largest_of(DType::e4m3), true);
    for (std::int64_t i = threadIdx.x; i < rows * cols; i += blockDim.x) {
      const std::int64_t row = row0 + i / cols, col = col0 + i % cols;
      const std::uint8_t code = fp8_code<E>(scale * to_f32(a.x[row * a.cols + col]));
      if (a.y != nullptr) a.y[row * a.cols + col] = code;
      if (a.transposed != nullptr) a.transposed[col * a.rows + row] = code;
    }
    if (threadIdx.x != 0) continue;
    if (a.inverse != nullptr) a.inverse[at / across * a.ld + at % across] = 1.0f / scale;
    if (a.transposed_inverse != nullptr)
      a.transposed_inverse[at % across * a.transposed_ld + at / across] = 1.0f / scale;
  }
}

template <class T>
__global__ void __launch_bounds__(kCastTile* kCastLines)
    fp8_transpose(const T* x, std::int64_t rows, std::int64_t cols, T* y) {
  __shared__ SharedArray<std::uint8_t, kCastTile*(kCastTile + 1)> tile;
  const int lane = static_cast<int>(threadIdx.x), line = static_cast<int>(threadIdx.y);
  const std::int64_t across = (cols + kCastTile - 1) / kCastTile, down = (rows + kCastTile - 1) / kCastTile;
  for (std::int64_t at = blockIdx.x; at < across * down; at += gridDim.x) {
    const std::int64_t row0 = at / across * kCastTile, col0 = at % across * kCastTile;
    __syncthreads();  // the tile before has been written out
    for (int k = line; k < kCastTile; k += kCastLines)
      if (row0 + k < rows && col0 + lane < cols)
        tile[k * (kCastTile + 1) + lane] = x[(row0 + k) * cols + col0 + lane];
    __syncthreads();
    for (int k = line; k < kCastTile; k += kCastLines)
      if (row0 + lane < rows && col0 + k < cols)
        y[(col0 + k) * rows + row0 + lane] = tile[lane * (kCastTile + 1) + k];
  }
}

// f(E()) with the storage type of FP8.
template <class F>
void with_fp8(DType t, F&& f) {
  t == DType::e4m3 ? f(e4m3{}) : f(e5m2{});
}

inline Launch tiles_shape(std::int64_t rows, std::int64_t cols) {
  Launch shape;
  const std::int64_t tiles = ((rows + kCastTile - 1) / kCastTile) * ((cols + kCastTile - 1) / kCastTile);
  shape.grid_x = static_cast<unsigned>(std::min(tiles, kEnoughBlocks));
  shape.block_x = kCastTile;
  shape.block_y = kCastLines;
  return shape;
}

template <class Stream>
void merge(Stream& stream, std::string_view name, const float* partial, std::int64_t count,
           const Tensor& amax) {
  Launch one;
  one.block_x = kFlatThreads;
  stream.launch(name, one, merge_maxima<kFlatThreads>, partial, count, pointer<float>(amax));
}

template <class Stream>
void enqueue(Stream& stream, const ops::AbsMax& op) {
  const std::int64_t n = op.x.numel();
  if (n == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    Launch shape = flat_shape(n, 1);
    shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, 1024));
    auto* partial = static_cast<float*>(stream.scratch(shape.grid_x * sizeof(float)));
    stream.launch(op.name, shape, find_maxima<T>, pointer<T>(op.x), n, partial);
    merge(stream, op.name, partial, static_cast<std::int64_t>(shape.grid_x), op.amax);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::Fp8Scale& op) {
  launch_flat(stream, op.name, op.amax.numel(),
              Fp8ScaleEach{pointer<float>(op.amax), pointer<float>(op.scale), pointer<float>(op.inverse),
                           largest_of(op.type), op.power_of_two});
}

template <class Stream>
void enqueue(Stream& stream, const ops::UpdateScales& op) {
  const std::int64_t n = op.amax.numel();
  if (n == 0) return;
  Launch shape;
  shape.grid_x = static_cast<unsigned>(std::min(n, kEnoughBlocks));
  shape.block_x = kFlatThreads;
  stream.launch(op.name, shape, update_scales<kFlatThreads>,
                UpdateScalesArguments{pointer<float>(op.amax), pointer<float>(op.history),
                                      pointer<float>(op.scale), pointer<float>(op.inverse),
                                      largest_of(op.type), n, op.history.shape()[0], op.row});
}

template <class Stream>
void enqueue(Stream& stream, const ops::Quantise& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  if (rows == 0 || cols == 0) return;
  const Launch shape = tiles_shape(rows, cols);
  float* partial = op.amax ? static_cast<float*>(stream.scratch(shape.grid_x * sizeof(float))) : nullptr;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    with_fp8(op.type(), [&](auto code) {
      using T = decltype(type);
      using E = decltype(code);
      stream.launch(
          op.name, shape, quantise<T, E>,
          QuantiseArguments<T, E>{pointer<T>(op.x), pointer<float>(op.scale), pointer<std::uint8_t>(op.y),
                                  pointer<std::uint8_t>(op.transposed), partial, rows, cols});
    });
  });
  if (op.amax) merge(stream, op.name, partial, static_cast<std::int64_t>(shape.grid_x), op.amax);
}

template <class Stream>
void enqueue(Stream& stream, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  if (rows == 0 || cols == 0) return;
  const std::int64_t across = op.blocks(cols), down = op.blocks(rows);
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    using E = e4m3;
    const BlocksArguments<T, E> a{pointer<T>(op.x),
                                  pointer<std::uint8_t>(op.y),
                                  pointer<std::uint8_t>(op.transposed),
                                  pointer<float>(op.inverse),
                                  pointer<float>(op.transposed_inverse),
                                  rows,
                                  cols,
                                  op.inverse ? op.inverse.shape()[1] : 0,
                                  op.transposed_inverse ? op.transposed_inverse.shape()[1] : 0};
    Launch shape;
    shape.block_x = kFlatThreads;
    const auto launch = [&](std::int64_t blocks, auto kernel) {
      shape.grid_x = static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kEnoughBlocks));
      stream.launch(op.name, shape, kernel, a);
    };
    if (op.squares) return launch(across * down, quantise_squares<T, E>);
    const std::int64_t warps = kFlatThreads / kWarp;
    if (op.y) launch((rows * across + warps - 1) / warps, quantise_rows<T, E>);
    if (op.transposed) launch((cols * down + kFlatThreads - 1) / kFlatThreads, quantise_columns<T, E>);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::Fp8Transpose& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1];
  if (rows == 0 || cols == 0) return;
  stream.launch(op.name, tiles_shape(rows, cols), fp8_transpose<std::uint8_t>, pointer<std::uint8_t>(op.x), rows, cols,
                pointer<std::uint8_t>(op.y));
}

}  // namespace mbench::cuda
