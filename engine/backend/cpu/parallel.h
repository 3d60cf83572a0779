// Loops shared among the OpenMP threads. One thread computes each element, in an order that the thread count does not change. So results
// never depend on it.
#pragma once
#include <algorithm>
#include <cstdint>

namespace mbench::cpu {

// Elements in one call of a kernel's inner loop: a few such buffers fit the first-level cache.
inline constexpr std::int64_t kTile = 1024;
// Below this many elements, waking the threads does not pay.
inline constexpr std::int64_t kParallelFrom = 8 * kTile;

// f(begin, count) for consecutive tiles of [0, n).
template <class F>
void parallel_tiles(std::int64_t n, F&& f) {
  const std::int64_t tiles = (n + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (n > kParallelFrom)
  for (std::int64_t t = 0; t < tiles; ++t) f(t * kTile, std::min(kTile, n - t * kTile));
}

// f(row) for every row of a [rows, cols] matrix.
template <class F>
void parallel_rows(std::int64_t rows, std::int64_t cols, F&& f) {
#pragma omp parallel for schedule(static) if (rows * cols > kParallelFrom)
  for (std::int64_t r = 0; r < rows; ++r) f(r);
}

// f(row, first column, count) for consecutive tiles of every row of a [rows, cols] matrix.
template <class F>
void parallel_row_tiles(std::int64_t rows, std::int64_t cols, F&& f) {
  const std::int64_t tiles = (cols + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (rows * cols > kParallelFrom)
  for (std::int64_t i = 0; i < rows * tiles; ++i) {
    const std::int64_t column = i % tiles * kTile;
    f(i / tiles, column, std::min(kTile, cols - column));
  }
}

}  // namespace mbench::cpu
