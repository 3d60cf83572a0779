// Casts tiles of 128 x 128 elements to NVFP4 (ops/quantise.h), straight and transposed. A tile's 64 rows of a pass lie in shared
// memory as f32. A thread takes blocks of 16 there, along a row for the straight operand and along a column for the transposed
// one. A column of 129 floats keeps the threads of a warp in different banks.
#pragma once
#include "engine/backend/cuda/kernels/cast_tile.h"
#include "engine/backend/cuda/kernels/e2m1.h"
#include "engine/backend/cuda/kernels/philox.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

inline constexpr int kNv = static_cast<int>(ops::QuantiseBlocks::kNvBlock);
inline constexpr int kNvRows = kCastTile / kCastPasses, kNvPitch = kCastTile + 1;  // of a pass
inline constexpr int kNvAcross = kCastTile / kNv;                                  // blocks of a row of the tile
using NvTile = SharedArray<float, kNvRows * kNvPitch>;

template <class T>
struct NvArguments {
  const T* x;
  std::uint8_t *y, *transposed, *scales, *transposed_scales;  // null: not wanted
  const float *amax, *transposed_amax;
  std::int64_t rows, cols, tiles;
  bool squares, hadamard, draws;
  RngKey key;
  const std::int64_t* step;  // null: the key's
};

// The rows of a pass, zeros beyond the matrix.
template <class T, bool Wide>
__device__ inline void fill_nv_tile(NvTile& tile, const CastPart<T, Wide>& part, const CastPlace& p, int pass) {
#pragma unroll
  for (int r = 0; r < kCastRows; ++r) {
    const Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
    for (int k = 0; k < kCastWidth; ++k) tile[(kCastRows * p.strip + r) * kNvPitch + kCastWidth * p.group + k] = z.v[k];
  }
}

__device__ inline float nv_most(const float (&v)[kNv]) {
  float most = 0;
#pragma unroll
  for (int i = 0; i < kNv; ++i) most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
  return most;
}

// Writes a block of an operand whose inner dim is `inner` long; its first element has that place in the operand.
__device__ inline void store_nv_block(std::uint8_t* codes, std::int64_t first, const float (&v)[kNv], float multiplier,
                                      bool draws, const RngKey& key) {
  std::uint32_t words[2] = {0, 0};
  if (draws) {
    std::uint32_t word[kNv];
    draw<kNv>(key, static_cast<std::uint64_t>(first), word);
#pragma unroll
    for (int i = 0; i < kNv; ++i) words[i / 8] |= e2m1_drawn(v[i] * multiplier, word[i]) << (4 * (i % 8));
  } else {
#pragma unroll
    for (int i = 0; i < kNv; ++i) words[i / 8] |= e2m1_nearest(v[i] * multiplier) << (4 * (i % 8));
  }
  std::uint8_t* to = codes + first / 2;
  if (reinterpret_cast<std::uintptr_t>(to) % 8 == 0) {
    store_bytes<8>(to, words);
  } else {
#pragma unroll
    for (int i = 0; i < kNv / 2; ++i) to[i] = static_cast<std::uint8_t>(words[i / 4] >> (8 * (i % 4)) & 0xFF);
  }
}

// Where the scale of a block of 16 of a tile's row stands among those of the tile, which are two of 512.
__device__ inline int nv_place_in(int row, int block) {
  return block / 4 * static_cast<int>(ops::QuantiseBlocks::kTile) + place_of_scale(row, block % 4);
}

template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise_nvfp4(NvArguments<T> a) {
  using Op = ops::QuantiseBlocks;
  __shared__ NvTile tile;
  __shared__ SharedArray<float, kNvRows * kNvAcross> maxima;  // of the rows' blocks, and then of the squares
  RngKey key = a.key, turned_key = a.key;
  if (a.step != nullptr) key.step = turned_key.step = static_cast<std::uint32_t>(*a.step);
  turned_key.site += ops::RandomRounding::kTransposed;
  const float amax = a.y != nullptr ? *a.amax : 0, turned_amax = a.transposed != nullptr ? *a.transposed_amax : 0;
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t at = blockIdx.x; at < a.tiles; at += gridDim.x) {
    const CastPlace p(at, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      const std::int64_t row0 = p.row0 + pass * kNvRows;
      __syncthreads();  // the rows before have been read
      fill_nv_tile(tile, part, p, pass);
      __syncthreads();
      float v[kNv];
      for (int b = thread; b < kNvRows * kNvAcross; b += kCastThreads) {
        const int row = b / kNvAcross, across = b % kNvAcross;
#pragma unroll
        for (int i = 0; i < kNv; ++i) v[i] = tile[row * kNvPitch + across * kNv + i];
        maxima[b] = nv_most(v);
      }
      __syncthreads();
      const auto square = [&](int strip, int across) {
        float most = 0;
        for (int r = 0; r < kNv; ++r) most = Max()(most, maxima[(strip * kNv + r) * kNvAcross + across]);
        return most;
      };
      if (a.y != nullptr)
        for (int b = thread; b < kNvRows * kNvAcross; b += kCastThreads) {
          const int row = b / kNvAcross, across = b % kNvAcross;
          const std::int64_t outer = row0 + row, block = p.col0 / kNv + across;
          const ops::NvScale scale = ops::nv_scale(a.squares ? square(row / kNv, across) : maxima[b], amax);
          if (block < 4 * Op::blocks(2 * a.cols))
            a.scales[Op::nv_place(p.row0, p.col0 / kNv, a.cols) + nv_place_in(pass * kNvRows + row, across)] =
                scale.code;
          if (outer >= a.rows || block * kNv >= a.cols) continue;
#pragma unroll
          for (int i = 0; i < kNv; ++i) v[i] = tile[row * kNvPitch + across * kNv + i];
          store_nv_block(a.y, outer * a.cols + block * kNv, v, scale.multiplier, a.draws, key);
        }
      if (a.transposed == nullptr) continue;
      for (int b = thread; b < kCastTile * (kNvRows / kNv); b += kCastThreads) {
        const int col = b % kCastTile, down = b / kCastTile;
        const std::int64_t outer = p.col0 + col, block = row0 / kNv + down;
#pragma unroll
        for (int i = 0; i < kNv; ++i) v[i] = tile[(down * kNv + i) * kNvPitch + col];
        if (a.hadamard) ops::Hadamard16::apply(v);
        const ops::NvScale scale = ops::nv_scale(a.squares ? square(down, col / kNv) : nv_most(v), turned_amax);
        if (block < 4 * Op::blocks(2 * a.rows))
          a.transposed_scales[Op::nv_place(p.col0, p.row0 / kNv, a.rows) +
                              nv_place_in(col, pass * (kNvRows / kNv) + down)] = scale.code;
        if (outer >= a.cols || block * kNv >= a.rows) continue;
        store_nv_block(a.transposed, outer * a.rows + block * kNv, v, scale.multiplier, a.draws, turned_key);
      }
    }
  }
}

// The largest |x|, and the largest |value| of what Hadamard16 makes of blocks of 16 rows, by block of threads.
template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks)
    find_hadamard_maxima(const T* x, std::int64_t rows, std::int64_t cols, std::int64_t tiles, float* plain,
                         float* transformed) {
  __shared__ NvTile tile;
  __shared__ SharedArray<float, kWarp> parts;
  float most = 0, turned = 0;
  for (std::int64_t at = blockIdx.x; at < tiles; at += gridDim.x) {
    const CastPlace p(at, rows, cols);
    const CastPart<T, Wide> part(x, p);
    most = part.most(most);
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      __syncthreads();  // the rows before have been read
      fill_nv_tile(tile, part, p, pass);
      __syncthreads();
      for (int b = static_cast<int>(threadIdx.x); b < kCastTile * (kNvRows / kNv); b += kCastThreads) {
        float v[kNv];
#pragma unroll
        for (int i = 0; i < kNv; ++i) v[i] = tile[(b / kCastTile * kNv + i) * kNvPitch + b % kCastTile];
        ops::Hadamard16::apply(v);
        turned = Max()(turned, nv_most(v));
      }
    }
  }
  most = row_reduce(most, 0.0f, parts, Max());
  __syncthreads();  // parts are used again
  turned = row_reduce(turned, 0.0f, parts, Max());
  if (threadIdx.x != 0) return;
  plain[blockIdx.x] = most;
  transformed[blockIdx.x] = turned;
}

}  // namespace mbench::cuda
