// Normal draws that are a function of the global element. A thread computes one Philox block (four elements of the whole tensor) and keeps
// those that are local.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/philox.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/random_normal.h"

namespace mbench::cuda {

// ln((w + 1) / 2^32) with full relative precision at both ends.
__device__ inline float log_uniform(std::uint32_t w) {
  const float down = static_cast<float>(~w) * 2.3283064365386963e-10f;  // 1 - u
  if (down <= 0.29f) return log1pf(-down);
  return logf((static_cast<float>(w) + 1.0f) * 2.3283064365386963e-10f);
}

// sin and cos of 2 pi w / 2^32: the quadrant and the remainder are exact in integers.
__device__ inline void sin_cos_turn(std::uint32_t w, float& sine, float& cosine) {
  const std::uint32_t quadrant = (w + (1u << 29)) >> 30;
  const auto rest = static_cast<std::int32_t>(w - (quadrant << 30));
  const float x = static_cast<float>(rest) * 1.46291807926715968e-9f;  // 2 pi / 2^32
  const float s = sinf(x), c = cosf(x);
  const bool swap = (quadrant & 1u) != 0;
  const float a = swap ? c : s, b = swap ? s : c;
  sine = (quadrant & 2u) != 0 ? -a : a;
  cosine = ((quadrant + 1u) & 2u) != 0 ? -b : b;
}

struct NormalArguments {
  float* x;
  std::int64_t rows, cols, global_cols, row0, col0;
  float stddev;
  RngKey key;
  float mean;
};

template <int Threads>
__global__ void __launch_bounds__(Threads) random_normal(NormalArguments a) {
  const std::int64_t quad = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
    const std::int64_t first = (a.row0 + row) * a.global_cols + a.col0;  // global element of column 0
    const std::int64_t element = (first / 4 + quad) * 4;
    if (element >= first + a.cols) continue;
    const Words w = philox_block(a.key, static_cast<std::uint64_t>(element / 4));
    float z[4];
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const float r = a.stddev * sqrtf(-2.0f * log_uniform(w.v[i]));
      float s, c;
      sin_cos_turn(w.v[i + 1], s, c);
      z[i] = a.mean + r * c;
      z[i + 1] = a.mean + r * s;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int64_t col = element + i - first;
      if (col >= 0 && col < a.cols) a.x[row * a.cols + col] = z[i];
    }
  }
}

template <class Stream>
void enqueue(Stream& stream, const ops::RandomNormal& op) {
  NormalArguments a{pointer<float>(op.x),
                    op.x.shape().rows(),
                    op.x.shape().cols(),
                    op.global_cols,
                    op.row0,
                    op.col0,
                    op.stddev,
                    op.key,
                    op.mean};
  if (a.rows == 0 || a.cols == 0) return;
  if (a.cols == a.global_cols) {  // whole rows are contiguous: they are one long row
    a.col0 += a.row0 * a.global_cols, a.row0 = 0;
    a.cols *= a.rows, a.rows = 1;
  }
  Launch shape;
  shape.block_x = kColumnThreads;
  const std::int64_t quads = a.cols / 4 + 2;  // a run may start and end inside one
  shape.grid_x = static_cast<unsigned>((quads + kColumnThreads - 1) / kColumnThreads);
  shape.grid_y = static_cast<unsigned>(std::min<std::int64_t>(a.rows, 32768));
  stream.launch(op.name, shape, random_normal<kColumnThreads>, a);
}

}  // namespace mbench::cuda
