// Casts a matrix to FP8 by a scale for each row of each operand (ops/quantise.h, whole_rows). Three kernels find the largest
// values of rows and columns of each tile, scales from these, and codes.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/cast_tile.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

template <class T>
struct WholeRowsArguments {
  const T* x;
  std::uint8_t *y, *transposed;         // null: not wanted
  float *inverse, *transposed_inverse;  // likewise
  float *row_maxima, *col_maxima;       // [tiles across, rows], [tiles down, cols]
  std::int64_t rows, cols, tiles;
};

template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) find_row_maxima(WholeRowsArguments<T> a) {
  __shared__ ColumnMaxima maxima;
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    if (a.y != nullptr)
#pragma unroll
      for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
        for (int r = 0; r < kCastRows; ++r) {
          const float most = row_most<kCastGroups>(part, pass, r);
          const std::int64_t row = p.row(pass, r);
          if (p.group == 0 && row < a.rows) a.row_maxima[p.col0 / kCastTile * a.rows + row] = most;
        }
    if (a.transposed == nullptr) continue;
    find_column_maxima(part, p, maxima);
    const int col = static_cast<int>(threadIdx.x);
    if (col >= kCastTile || p.col0 + col >= a.cols) continue;
    a.col_maxima[p.row0 / kCastTile * a.cols + p.col0 + col] = column_most(maxima, col);
  }
}

// inverse[i] of the largest of `parts` maxima, [parts, n]. A block has 32 columns, and each of its warps every eighth part: there are few
// columns, so one thread to each would leave most multiprocessors idle.
inline constexpr int kInverseThreads = 256;
template <int Threads>
__global__ void __launch_bounds__(Threads)
    inverse_of_maxima(const float* maxima, std::int64_t parts, std::int64_t n, float* inverse) {
  constexpr int kWarps = Threads / kWarp;
  __shared__ SharedArray<float, Threads> found;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kWarp; first < n;
       first += static_cast<std::int64_t>(gridDim.x) * kWarp) {
    const std::int64_t i = first + lane;
    float most = 0;
    if (i < n)
#pragma unroll 4
      for (std::int64_t p = warp; p < parts; p += kWarps) most = Max()(most, maxima[p * n + i]);
    __syncthreads();  // the columns before have been read
    found[warp * kWarp + lane] = most;
    __syncthreads();
    if (warp != 0 || i >= n) continue;
    for (int w = 1; w < kWarps; ++w) most = Max()(most, found[w * kWarp + lane]);
    inverse[i] = 1.0f / ops::fp8_scale(most, largest_of(DType::e4m3), true);
  }
}
inline Launch inverse_shape(std::int64_t n) {
  Launch shape;
  shape.grid_x = static_cast<unsigned>(std::min((n + kWarp - 1) / kWarp, kEnoughBlocks));
  shape.block_x = kInverseThreads;
  return shape;
}

// Scales are powers of two, and so are their inverses: to divide by one is exact.
template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise_whole_rows(WholeRowsArguments<T> a) {
  __shared__ CastWords words;
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    Floats<kCastWidth> up = filled<kCastWidth>(0);
    if (a.transposed != nullptr)
#pragma unroll
      for (int k = 0; k < kCastWidth; ++k)
        if (p.col() + k < a.cols) up.v[k] = 1.0f / a.transposed_inverse[p.col() + k];
    __syncthreads();  // the tile before has been written out
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      Codes codes[kCastRows];
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) {
        const Floats<kCastWidth> x = floats_of(part.x[pass][r]);
        const std::int64_t row = p.row(pass, r);
        Floats<kCastWidth> z = x;
        if (a.y != nullptr && row < a.rows) {
          const float scale = 1.0f / a.inverse[row];
#pragma unroll
          for (int k = 0; k < kCastWidth; ++k) z.v[k] = x.v[k] * scale;
          store_codes<Wide>(a.y, p, row, codes_of<e4m3>(z));
        }
#pragma unroll
        for (int k = 0; k < kCastWidth; ++k) z.v[k] = x.v[k] * up.v[k];
        codes[r] = codes_of<e4m3>(z);
      }
      if (a.transposed != nullptr) turn(words, p, pass, codes);
    }
    __syncthreads();
    if (a.transposed != nullptr) store_turned<Wide>(words, p, a.transposed);
  }
}

}  // namespace mbench::cuda
