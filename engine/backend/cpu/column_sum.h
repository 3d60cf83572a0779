// Sums over rows, the gradients of what every row shares. The number of rows determines the chunks. Each chunk is summed in order, then the
// chunks are, so the result does not depend on the number of threads.
#pragma once
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/device/tensor.h"

namespace mbench::cpu {

struct RowChunks {
  static constexpr std::int64_t kMost = 64, kFewestRows = 16;
  explicit RowChunks(std::int64_t n) : rows(n), size(std::max(kFewestRows, (n + kMost - 1) / kMost)) {
    count = (n + size - 1) / size;
  }
  std::int64_t begin(std::int64_t chunk) const { return chunk * size; }
  std::int64_t end(std::int64_t chunk) const { return std::min(rows, (chunk + 1) * size); }
  std::int64_t rows, size, count;
};

// to[j] += sum over chunks of partial[chunk * stride + j], j < to.numel().
inline void add_chunks(const float* partial, std::int64_t chunks, std::int64_t stride, const Tensor& to) {
  with_type(to.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(to.numel(), [&](std::int64_t begin, std::int64_t n) {
      float sum[kTile] = {}, old[kTile], out[kTile];
      for (std::int64_t c = 0; c < chunks; ++c) {
        const float* from = partial + c * stride + begin;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) sum[i] += from[i];
      }
      const float* was = load(to.as<T>() + begin, old, n);
      float* y = target(to.as<T>() + begin, out);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = was[i] + sum[i];
      store(y, to.as<T>() + begin, n);
    });
  });
}

}  // namespace mbench::cpu
