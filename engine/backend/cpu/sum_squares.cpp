#include "engine/ops/sum_squares.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

namespace {

constexpr std::int64_t kChunk = 64 * kTile, kLanes = 16;

template <class T>
double squares_of_chunk(const T* x, std::int64_t n) {
  double lane[kLanes] = {};
  float buffer[kTile];
  for (std::int64_t at = 0; at < n; at += kTile) {
    const std::int64_t count = std::min(kTile, n - at);
    const float* z = load(x + at, buffer, count);
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
      for (std::int64_t l = 0; l < kLanes; ++l) lane[l] += static_cast<double>(z[i + l]) * z[i + l];
    }
    for (std::int64_t l = 0; i + l < count; ++l) lane[l] += static_cast<double>(z[i + l]) * z[i + l];
  }
  double sum = 0;
  for (double l : lane) sum += l;
  return sum;
}

}  // namespace

// Chunks of fixed size, each summed in lanes of f64, then added in order: independent of the number of
// threads.
template <>
void compute(CpuOps& cpu, const ops::SumSquares& op) {
  const ops::ElementRange whole{0, op.x.numel()};
  const ops::ElementRanges ranges = op.only.empty() ? ops::ElementRanges(&whole, 1) : op.only;
  double sum = *op.sum.as<float>();
  for (const ops::ElementRange& r : ranges) {
    const std::int64_t n = r.end - r.begin, chunks = (n + kChunk - 1) / kChunk;
    auto* partial = static_cast<double*>(cpu.scratch.bytes(static_cast<std::size_t>(chunks) * sizeof(double)));
    with_type(op.x.dtype(), [&](auto type) {
      const auto* x = op.x.as<decltype(type)>() + r.begin;
#pragma omp parallel for schedule(static) if (n > kParallelFrom)
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
        partial[chunk] = squares_of_chunk(x + chunk * kChunk, std::min(kChunk, n - chunk * kChunk));
    });
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk];
  }
  *op.sum.as<float>() = static_cast<float>(sum);
}

}  // namespace mbench::cpu
