#include "engine/ops/combine.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Combine& op) {
  const std::int64_t n = op.y.shape().cols(), k = op.rows.shape().cols(), end = op.x.shape().rows();
  with_type(op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles(op.y.shape().rows(), n, [&](std::int64_t token, std::int64_t col, std::int64_t count) {
      float sum[kTile] = {}, buffer[kTile];
      for (std::int64_t j = 0; j < k; ++j) {
        const std::int64_t row = op.rows.as<std::int64_t>()[token * k + j];
        if (row < 0 || row >= end) continue;
        const float weight = op.weights.as<float>()[token * k + j];
        const float* x = load(static_cast<const T*>(op.x.as<T>()) + row * n + col, buffer, count);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) sum[i] += weight * x[i];
      }
      from_floats(sum, op.y.as<T>() + token * n + col, count);
    });
  });
}

// By rows of the experts, of which each has one pair: every weight's gradient is one thread's.
template <>
void compute(CpuOps&, const ops::CombineGrad& op) {
  const std::int64_t n = op.x.shape().cols(), k = op.rows.shape().cols(), pairs = op.rows.numel(),
                     end = op.x.shape().rows();
  auto* dweights = op.dweights.as<float>();
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    const std::int64_t row = op.rows.as<std::int64_t>()[pair];
    if (row < 0 || row >= end) dweights[pair] = 0;
  }
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_rows(end, n, [&](std::int64_t row) {
      const std::int64_t pair = op.pairs.as<std::int64_t>()[row];
      T* to = op.dx.as<T>() + row * n;
      if (pair < 0 || pair >= pairs) {
        std::fill(to, to + n, T{});
        return;
      }
      const float weight = op.weights.as<float>()[pair];
      float gemm = 0;
      for (std::int64_t col = 0; col < n; col += kTile) {
        const std::int64_t count = std::min(kTile, n - col);
        float xb[kTile], dyb[kTile], out[kTile];
        const float* x = load(static_cast<const T*>(op.x.as<T>()) + row * n + col, xb, count);
        const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + pair / k * n + col, dyb, count);
        gemm += sum_of(count, [=](std::int64_t i) { return dy[i] * x[i]; });  // before dx, which may be x
        float* dx = target(to + col, out);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) dx[i] = weight * dy[i];
        store(dx, to + col, count);
      }
      dweights[pair] = gemm;
    });
  });
}

}  // namespace mbench::cpu
