#include "engine/ops/bias_add.h"

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::BiasAdd& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      const float* bias = load(op.bias.as<T>() + col, bb, n);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + bias[i];
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::BiasGrad& op) {
  const std::int64_t rows = op.dy.shape().rows(), cols = op.dy.shape().cols();
  const RowChunks chunks(rows);
  float* partial = cpu.scratch.floats(chunks.count * cols);
  with_type(op.dy.dtype(), [&](auto type) {
    using T = decltype(type);
    // All rows of a chunk, tile by tile of columns: the partial sums stay in the first-level cache.
    constexpr std::int64_t kWide = 4 * kTile;  // short pieces of rows would defeat the prefetcher
    const std::int64_t tiles = (cols + kWide - 1) / kWide;
#pragma omp parallel for schedule(static) if (rows * cols > kParallelFrom)
    for (std::int64_t item = 0; item < chunks.count * tiles; ++item) {
      const std::int64_t chunk = item / tiles, col = item % tiles * kWide, n = std::min(kWide, cols - col);
      float sum[kWide] = {}, buffer[kWide];
      for (std::int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
        const float* dy = load(op.dy.as<T>() + r * cols + col, buffer, n);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sum[i] += dy[i];
      }
      std::copy(sum, sum + n, partial + chunk * cols + col);
    }
  });
  add_chunks(partial, chunks.count, cols, op.dbias);
}

}  // namespace mbench::cpu
