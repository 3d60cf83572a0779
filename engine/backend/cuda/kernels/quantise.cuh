// FP8 operands: maxima, scales, casts and transposes. A maximum is the same in any order. What blocks of threads found goes through scratch
// to a second kernel.
#pragma once
#include <type_traits>

#include "engine/backend/cuda/kernels/cast_tile.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/mx_tile.h"
#include "engine/backend/cuda/kernels/nvfp4_tile.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/backend/cuda/kernels/whole_rows.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

static_assert(ops::QuantiseBlocks::kBlock == kCastTile, "a tile has one scale, or one for each of its rows or columns");

// *to = the larger of *to and what the blocks found. One block.
template <int Threads>
__global__ void __launch_bounds__(Threads) merge_maxima(const float* partial, std::int64_t count, float* to) {
  __shared__ SharedArray<float, kWarp> parts;
  float most = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) most = partial[i] > most ? partial[i] : most;
  most = row_reduce(most, 0.0f, parts, Max());
  if (threadIdx.x == 0 && most > *to) *to = most;
}

template <class T, int V>
__global__ void __launch_bounds__(kFlatThreads) find_maxima(const T* x, std::int64_t n, float* partial) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x, whole = n / V * V;
  float most = 0;
  const auto look = [&](float z) { most = fabsf(z) > most ? fabsf(z) : most; };
#pragma unroll 4
  for (std::int64_t i = thread * V; i < whole; i += threads * V) {
    const Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) look(z.v[k]);
  }
  for (std::int64_t i = whole + thread; i < n; i += threads) look(to_f32(x[i]));
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

// A block for each tensor: its threads share the tensor's history.
struct UpdateScalesArguments {
  float *amax, *history, *scale, *inverse;
  float largest;
  std::int64_t n, steps, row;
  const std::int64_t* step;  // null: the row as it is
};
template <int Threads>
__global__ void __launch_bounds__(Threads) update_scales(UpdateScalesArguments a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t row = a.step != nullptr ? *a.step % a.steps : a.row;
  for (std::int64_t i = blockIdx.x; i < a.n; i += gridDim.x) {
    const float now = a.amax[i];
    float most = now;
    for (std::int64_t step = threadIdx.x; step < a.steps; step += blockDim.x) {
      const float before = step == row ? now : a.history[step * a.n + i];
      most = before > most ? before : most;
    }
    most = row_reduce(most, 0.0f, parts, Max());
    if (threadIdx.x != 0) continue;
    a.history[row * a.n + i] = now;
    a.amax[i] = 0;
    if (most > 0) {
      const float s = ops::fp8_scale(most, a.largest);
      a.scale[i] = s;
      a.inverse[i] = 1.0f / s;
    }
  }
}

template <class T>
struct QuantiseArguments {
  const T* x;
  const float* scale;
  std::uint8_t *y, *transposed;  // null: not wanted
  float* partial;                // [blocks], null: no maximum
  std::int64_t rows, cols, tiles;
};

// The thread's codes by one scale, written as they are and transposed.
template <class E, bool Wide, class T>
__device__ inline void cast_tile(const CastPart<T, Wide>& part, const CastPlace& p, float scale, std::uint8_t* y,
                                 std::uint8_t* transposed, CastWords& words) {
  __syncthreads();  // the tile before has been written out
#pragma unroll
  for (int pass = 0; pass < kCastPasses; ++pass) {
    Codes codes[kCastRows];
#pragma unroll
    for (int r = 0; r < kCastRows; ++r) {
      Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
      for (int k = 0; k < kCastWidth; ++k) z.v[k] *= scale;
      codes[r] = codes_of<E>(z);
      if (y != nullptr) store_codes<Wide>(y, p, p.row(pass, r), codes[r]);
    }
    if (transposed != nullptr) turn(words, p, pass, codes);
  }
  __syncthreads();
  if (transposed != nullptr) store_turned<Wide>(words, p, transposed);
}

template <class T, class E, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise(QuantiseArguments<T> a) {
  __shared__ CastWords words;
  __shared__ SharedArray<float, kWarp> parts;
  const float scale = *a.scale;
  float most = 0;
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    if (a.partial != nullptr) most = part.most(most);
    cast_tile<E>(part, p, scale, a.y, a.transposed, words);
  }
  if (a.partial == nullptr) return;
  most = row_reduce(most, 0.0f, parts, Max());
  if (threadIdx.x == 0) a.partial[blockIdx.x] = most;
}

template <class T>
struct BlocksArguments {
  const T* x;
  std::uint8_t *y, *transposed;
  float *inverse, *transposed_inverse;
  std::int64_t rows, cols, tiles, ld, transposed_ld;  // the last two: of the scales of square blocks
};

// A scale for 128 elements of a row, and of a column of the transposed result. The matrix is read once.
template <class T, class E, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise_vectors(BlocksArguments<T> a) {
  __shared__ CastWords words;
  __shared__ ColumnMaxima maxima;
  const float largest = largest_of(DType::e4m3);
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    if (a.y != nullptr)
#pragma unroll
      for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
        for (int r = 0; r < kCastRows; ++r) {
          const float most = row_most<kCastGroups>(part, pass, r);
          const float scale = ops::fp8_scale(most, largest, true);
          Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
          for (int k = 0; k < kCastWidth; ++k) z.v[k] *= scale;
          const std::int64_t row = p.row(pass, r);
          store_codes<Wide>(a.y, p, row, codes_of<E>(z));
          if (p.group == 0 && row < a.rows) a.inverse[p.col0 / kCastTile * a.rows + row] = 1.0f / scale;
        }
    if (a.transposed == nullptr) continue;
    find_column_maxima(part, p, maxima);
    Floats<kCastWidth> scale;
#pragma unroll
    for (int k = 0; k < kCastWidth; ++k) {
      scale.v[k] = ops::fp8_scale(column_most(maxima, kCastWidth * p.group + k), largest, true);
      if (p.strip == 0 && p.col() + k < a.cols)
        a.transposed_inverse[p.row0 / kCastTile * a.cols + p.col() + k] = 1.0f / scale.v[k];
    }
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      Codes codes[kCastRows];
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) {
        Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
        for (int k = 0; k < kCastWidth; ++k) z.v[k] *= scale.v[k];
        codes[r] = codes_of<E>(z);
      }
      turn(words, p, pass, codes);
    }
    __syncthreads();
    store_turned<Wide>(words, p, a.transposed);
  }
}

// One scale for each tile.
template <class T, class E, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise_squares(BlocksArguments<T> a) {
  __shared__ CastWords words;
  __shared__ SharedArray<float, kWarp> parts;
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    const float most = row_reduce(part.most(0), 0.0f, parts, Max());
    const float scale = ops::fp8_scale(most, largest_of(DType::e4m3), true);
    cast_tile<E>(part, p, scale, a.y, a.transposed, words);
    if (threadIdx.x != 0) continue;
    const std::int64_t down = p.row0 / kCastTile, across = p.col0 / kCastTile;
    if (a.inverse != nullptr) a.inverse[down * a.ld + across] = 1.0f / scale;
    if (a.transposed_inverse != nullptr) a.transposed_inverse[across * a.transposed_ld + down] = 1.0f / scale;
  }
}

template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks)
    fp8_transpose(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t tiles, T* y) {
  __shared__ CastWords words;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const CastPlace p(tile, rows, cols);
    const CastPart<T, Wide> part(x, p);
    __syncthreads();  // the tile before has been written out
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      Codes codes[kCastRows];
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) memcpy(codes[r].word, &part.x[pass][r], kCastWidth);
      turn(words, p, pass, codes);
    }
    __syncthreads();
    store_turned<Wide>(words, p, y);
  }
}

// f(E()) with the storage type of FP8.
template <class F>
void with_fp8(DType t, F&& f) {
  t == DType::e4m3 ? f(e4m3{}) : f(e5m2{});
}

inline std::int64_t cast_tiles(std::int64_t rows, std::int64_t cols) {
  return ((rows + kCastTile - 1) / kCastTile) * ((cols + kCastTile - 1) / kCastTile);
}
inline Launch cast_shape(std::int64_t tiles) {
  Launch shape;
  shape.grid_x = static_cast<unsigned>(std::min(tiles, kEnoughBlocks));
  shape.block_x = kCastThreads;
  return shape;
}
// f(true_type or false_type): whether whole vectors can be cast.
template <class F>
void with_wide(bool wide, F&& f) {
  wide ? f(std::true_type()) : f(std::false_type());
}

template <class Stream>
void merge(Stream& stream, std::string_view name, const float* partial, std::int64_t count, const Tensor& amax) {
  Launch one;
  one.block_x = kFlatThreads;
  stream.launch(name, one, merge_maxima<kFlatThreads>, partial, count, pointer<float>(amax));
}

template <class Stream>
void enqueue_hadamard_maxima(Stream& stream, const ops::AbsMax& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols);
  const Launch shape = cast_shape(tiles);
  const auto blocks = static_cast<std::int64_t>(shape.grid_x);
  auto* plain = static_cast<float*>(stream.scratch(2 * static_cast<std::size_t>(blocks) * sizeof(float)));
  float* transformed = plain + blocks;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T* x = pointer<T>(op.x);
    const auto* none = static_cast<const std::uint8_t*>(nullptr);
    with_wide(cast_is_wide(x, none, none, rows, cols), [&](auto wide) {
      stream.launch(op.name, shape, find_hadamard_maxima<T, wide()>, x, rows, cols, tiles, plain, transformed);
    });
  });
  if (op.amax) merge(stream, op.name, plain, blocks, op.amax);
  merge(stream, op.name, transformed, blocks, op.hadamard);
}

template <class Stream>
void enqueue_whole_rows(Stream& stream, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols),
                     across = op.blocks(cols), down = op.blocks(rows);
  auto* maxima =
      static_cast<float*>(stream.scratch(static_cast<std::size_t>(across * rows + down * cols) * sizeof(float)));
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const WholeRowsArguments<T> a{pointer<T>(op.x),
                                  pointer<std::uint8_t>(op.y),
                                  pointer<std::uint8_t>(op.transposed),
                                  pointer<float>(op.inverse),
                                  pointer<float>(op.transposed_inverse),
                                  maxima,
                                  maxima + across * rows,
                                  rows,
                                  cols,
                                  tiles};
    with_wide(cast_is_wide(a.x, a.y, a.transposed, rows, cols), [&](auto wide) {
      stream.launch(op.name, cast_shape(tiles), find_row_maxima<T, wide()>, a);
      if (op.y)
        stream.launch(op.name, inverse_shape(rows), inverse_of_maxima<kInverseThreads>, a.row_maxima, across, rows,
                      a.inverse);
      if (op.transposed)
        stream.launch(op.name, inverse_shape(cols), inverse_of_maxima<kInverseThreads>, a.col_maxima, down, cols,
                      a.transposed_inverse);
      stream.launch(op.name, cast_shape(tiles), quantise_whole_rows<T, wide()>, a);
    });
  });
}

template <class Stream>
void enqueue_nvfp4(Stream& stream, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols);
  const ops::RandomRounding rounding = op.rounding.value_or(ops::RandomRounding{});
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const NvArguments<T> a{pointer<T>(op.x),
                           pointer<std::uint8_t>(op.y),
                           pointer<std::uint8_t>(op.transposed),
                           pointer<std::uint8_t>(op.inverse),
                           pointer<std::uint8_t>(op.transposed_inverse),
                           pointer<float>(op.amax),
                           pointer<float>(op.transposed_amax),
                           rows,
                           cols,
                           tiles,
                           op.by == ops::Fp8Blocks::nv_squares,
                           op.hadamard,
                           op.rounding.has_value(),
                           rounding.key,
                           pointer<std::int64_t>(rounding.step)};
    with_wide(cast_is_wide(a.x, a.y, a.transposed, rows, cols),
              [&](auto wide) { stream.launch(op.name, cast_shape(tiles), quantise_nvfp4<T, wide()>, a); });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::AbsMax& op) {
  const std::int64_t n = op.x.numel();
  if (n == 0) return;
  if (op.hadamard) return enqueue_hadamard_maxima(stream, op);
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T* x = pointer<T>(op.x);
    const bool wide = aligned<V>(x);
    Launch shape = flat_shape(n, wide ? V : 1);
    shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, 1024));
    auto* partial = static_cast<float*>(stream.scratch(shape.grid_x * sizeof(float)));
    stream.launch(op.name, shape, wide ? find_maxima<T, V> : find_maxima<T, 1>, x, n, partial);
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
                UpdateScalesArguments{pointer<float>(op.amax), pointer<float>(op.history), pointer<float>(op.scale),
                                      pointer<float>(op.inverse), largest_of(op.type), n, op.history.shape()[0], op.row,
                                      pointer<std::int64_t>(op.step)});
}

template <class Stream>
void enqueue(Stream& stream, const ops::Quantise& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols);
  if (tiles == 0) return;
  const Launch shape = cast_shape(tiles);
  float* partial = op.amax ? static_cast<float*>(stream.scratch(shape.grid_x * sizeof(float))) : nullptr;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const QuantiseArguments<T> a{pointer<T>(op.x),
                                 pointer<float>(op.scale),
                                 pointer<std::uint8_t>(op.y),
                                 pointer<std::uint8_t>(op.transposed),
                                 partial,
                                 rows,
                                 cols,
                                 tiles};
    with_fp8(op.type(), [&](auto code) {
      with_wide(cast_is_wide(a.x, a.y, a.transposed, rows, cols),
                [&](auto wide) { stream.launch(op.name, shape, quantise<T, decltype(code), wide()>, a); });
    });
  });
  if (op.amax) merge(stream, op.name, partial, static_cast<std::int64_t>(shape.grid_x), op.amax);
}

template <class Stream>
void enqueue(Stream& stream, const ops::QuantiseBlocks& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols);
  if (tiles == 0) return;
  if (of_nvfp4(op.by)) return enqueue_nvfp4(stream, op);
  if (op.by == ops::Fp8Blocks::whole_rows) return enqueue_whole_rows(stream, op);
  if (op.by == ops::Fp8Blocks::mx) {
    with_float(op.name, op.x.dtype(), [&](auto type) {
      using T = decltype(type);
      const MxArguments<T> a{pointer<T>(op.x),
                             pointer<std::uint8_t>(op.y),
                             pointer<std::uint8_t>(op.transposed),
                             pointer<std::uint8_t>(op.inverse),
                             pointer<std::uint8_t>(op.transposed_inverse),
                             rows,
                             cols,
                             tiles};
      with_wide(cast_is_wide(a.x, a.y, a.transposed, rows, cols),
                [&](auto wide) { stream.launch(op.name, cast_shape(tiles), quantise_mx<T, wide()>, a); });
    });
    return;
  }
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const BlocksArguments<T> a{pointer<T>(op.x),
                               pointer<std::uint8_t>(op.y),
                               pointer<std::uint8_t>(op.transposed),
                               pointer<float>(op.inverse),
                               pointer<float>(op.transposed_inverse),
                               rows,
                               cols,
                               tiles,
                               op.inverse ? op.inverse.shape()[1] : 0,
                               op.transposed_inverse ? op.transposed_inverse.shape()[1] : 0};
    with_wide(cast_is_wide(a.x, a.y, a.transposed, rows, cols), [&](auto wide) {
      const auto kernel =
          op.by == ops::Fp8Blocks::squares ? quantise_squares<T, e4m3, wide()> : quantise_vectors<T, e4m3, wide()>;
      stream.launch(op.name, cast_shape(tiles), kernel, a);
    });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::Fp8Transpose& op) {
  const std::int64_t rows = op.x.shape()[0], cols = op.x.shape()[1], tiles = cast_tiles(rows, cols);
  if (tiles == 0) return;
  const auto *x = pointer<std::uint8_t>(op.x), *none = static_cast<const std::uint8_t*>(nullptr);
  auto* y = pointer<std::uint8_t>(op.y);
  with_wide(cast_is_wide(x, none, y, rows, cols), [&](auto wide) {
    stream.launch(op.name, cast_shape(tiles), fp8_transpose<std::uint8_t, wide()>, x, rows, cols, tiles, y);
  });
}

}  // namespace mbench::cuda
