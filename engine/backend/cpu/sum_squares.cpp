#include "engine/ops/sum_squares.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

// Chunks of fixed size, each summed in lanes of f64, then added in order: independent of the number of
// threads.
void CpuOps::run(const ops::SumSquares& op) {
  constexpr std::int64_t kChunk = 64 * kTile, kLanes = 16;
  const std::int64_t n = op.x.numel(), chunks = (n + kChunk - 1) / kChunk;
  auto* partial = static_cast<double*>(scratch_.bytes(static_cast<std::size_t>(chunks) * sizeof(double)));
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
#pragma omp parallel for schedule(static) if (n > kParallelFrom)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      double lane[kLanes] = {};
      float buffer[kTile];
      for (std::int64_t at = chunk * kChunk; at < std::min(n, (chunk + 1) * kChunk); at += kTile) {
        const std::int64_t count = std::min(kTile, n - at);
        const float* x = load(op.x.as<T>() + at, buffer, count);
        std::int64_t i = 0;
        for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
          for (std::int64_t l = 0; l < kLanes; ++l) lane[l] += static_cast<double>(x[i + l]) * x[i + l];
        }
        for (std::int64_t l = 0; i + l < count; ++l) lane[l] += static_cast<double>(x[i + l]) * x[i + l];
      }
      double sum = 0;
      for (double l : lane) sum += l;
      partial[chunk] = sum;
    }
  });
  double sum = *op.sum.as<float>();
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk];
  *op.sum.as<float>() = static_cast<float>(sum);
}

}  // namespace mbench::cpu
