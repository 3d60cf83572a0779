#include "engine/ops/add.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Add& op) {
  with_type(op.a.dtype(), [&](auto type) {
    with_type(op.b.dtype(), [&](auto added) {
      using T = decltype(type);
      using B = decltype(added);
      parallel_tiles(op.a.numel(), [&](std::int64_t begin, std::int64_t n) {
        float ab[kTile], bb[kTile], yb[kTile];
        const float* a = load(op.a.as<T>() + begin, ab, n);
        const float* b = load(op.b.as<B>() + begin, bb, n);
        float* y = target(op.y.as<T>() + begin, yb);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
        store(y, op.y.as<T>() + begin, n);
      });
    });
  });
}

}  // namespace mbench::cpu
