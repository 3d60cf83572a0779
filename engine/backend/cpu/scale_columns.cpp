#include "engine/ops/scale_columns.h"

#include <vector>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::ScaleColumns& op) {
  // The factors of as many rows as make a tile, so that narrow rows are multiplied together.
  const std::int64_t width = op.columns.width(), rows = std::max<std::int64_t>(1, kTile / width);
  std::vector<float> factors(static_cast<std::size_t>(rows * width));
  for (std::int64_t i = 0; i < rows * width; ++i) factors[static_cast<std::size_t>(i)] = op.columns.at(i % width);
  const std::int64_t all = op.x.numel(), wide = rows * width;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_row_tiles((all + wide - 1) / wide, wide, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      const std::int64_t at = row * wide + column, n = std::min(count, all - at);
      if (n <= 0) return;
      float xb[kTile], yb[kTile];
      const float *x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, n), *f = factors.data() + column;
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * f[i];
      store(y, op.y.as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
