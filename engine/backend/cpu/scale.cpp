#include "engine/ops/scale.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Scale& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      float xb[kTile], yb[kTile];
      const float* x = load(op.x.as<T>() + begin, xb, n);
      float* y = target(op.y.as<T>() + begin, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = op.factor * x[i];
      store(y, op.y.as<T>() + begin, n);
    });
  });
}

}  // namespace mbench::cpu
