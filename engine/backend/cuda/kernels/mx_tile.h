// Casts tiles of 128 x 128 elements to MXFP8 (ops/quantise.h), straight and transposed.
#pragma once
#include "engine/backend/cuda/kernels/cast_tile.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/ops/quantise.h"

namespace mbench::cuda {

template <class T>
struct MxArguments {
  const T* x;
  std::uint8_t *y, *transposed, *scales, *transposed_scales;
  std::int64_t rows, cols, tiles;
};

// The elements of a pack by their multipliers, as codes.
__device__ inline Codes mx_codes(Floats<kCastWidth> z, const Floats<kCastWidth>& up) {
#pragma unroll
  for (int k = 0; k < kCastWidth; ++k) z.v[k] *= up.v[k];
  return codes_of<e4m3>(z);
}

// MX: one scale for 32 elements along the inner dim of each operand. A tile of elements has a tile of scales both ways, which
// its threads write whole: what is beyond the matrix has largest values, and so scales, of zero. A thread's rows and columns start at a multiple
// of their number, so that the places of their scales add up.
template <class T, bool Wide>
__global__ void __launch_bounds__(kCastThreads, kCastBlocks) quantise_mx(MxArguments<T> a) {
  using Op = ops::QuantiseBlocks;
  constexpr int kThreads = static_cast<int>(Op::kMxBlock) / kCastWidth;  // that share a scale of a row
  constexpr int kStrips = static_cast<int>(Op::kMxBlock) / kCastRows;    // and of a column,
  constexpr int kWarps = kStrips * kCastGroups / kWarp;                  // in so many warps
  const float largest = largest_of(DType::e4m3);
  __shared__ CastWords words;
  __shared__ SharedArray<float, kCastWarps * kCastTile> parts;
  for (std::int64_t tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const CastPlace p(tile, a.rows, a.cols);
    const CastPart<T, Wide> part(a.x, p);
    if (a.y != nullptr) {
      std::uint8_t* const scales = a.scales + Op::mx_place(p.row0, p.col0 / Op::kMxBlock, a.cols) +
                                   place_of_scale(p.tile_row(0, 0), p.group / kThreads);
#pragma unroll
      for (int pass = 0; pass < kCastPasses; ++pass)
#pragma unroll
        for (int r = 0; r < kCastRows; ++r) {
          const float most = row_most<kThreads>(part, pass, r);
          const std::uint8_t scale = ops::mx_scale(most, largest);
          store_codes<Wide>(a.y, p, p.row(pass, r),
                            mx_codes(floats_of(part.x[pass][r]), filled<kCastWidth>(ops::mx_multiplier(scale))));
          if (p.group % kThreads == 0) scales[place_of_scale(kCastTile / kCastPasses * pass + r, 0)] = scale;
        }
    }
    if (a.transposed == nullptr) continue;
    std::uint8_t* const turned_scales = a.transposed_scales + Op::mx_place(p.col0, p.row0 / Op::kMxBlock, a.rows) +
                                        place_of_scale(kCastWidth * p.group, p.strip / kStrips);
    const int warp = static_cast<int>(threadIdx.x) / kWarp, first = warp / kWarps * kWarps;
#pragma unroll
    for (int pass = 0; pass < kCastPasses; ++pass) {
      Floats<kCastWidth> most = filled<kCastWidth>(0);
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) {
        const Floats<kCastWidth> z = floats_of(part.x[pass][r]);
#pragma unroll
        for (int k = 0; k < kCastWidth; ++k) most.v[k] = fabsf(z.v[k]) > most.v[k] ? fabsf(z.v[k]) : most.v[k];
      }
      __syncthreads();  // the pass or the tile before has been read
#pragma unroll
      for (int k = 0; k < kCastWidth; ++k) {
        most.v[k] = Max()(most.v[k], from_lane_xor(most.v[k], kCastGroups));
        if (p.strip % 2 == 0) parts[warp * kCastTile + kCastWidth * p.group + k] = most.v[k];
      }
      __syncthreads();
      Floats<kCastWidth> up;
#pragma unroll
      for (int k = 0; k < kCastWidth; ++k) {
        float all = 0;
        for (int w = first; w < first + kWarps; ++w) all = Max()(all, parts[w * kCastTile + kCastWidth * p.group + k]);
        const std::uint8_t scale = ops::mx_scale(all, largest);
        up.v[k] = ops::mx_multiplier(scale);
        if (p.strip % kStrips == 0) turned_scales[place_of_scale(k, kCastWords / kCastPasses / kStrips * pass)] = scale;
      }
      Codes codes[kCastRows];
#pragma unroll
      for (int r = 0; r < kCastRows; ++r) codes[r] = mx_codes(floats_of(part.x[pass][r]), up);
      turn(words, p, pass, codes);
    }
    __syncthreads();
    store_turned<Wide>(words, p, a.transposed);
  }
}

}  // namespace mbench::cuda
