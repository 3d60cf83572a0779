#include "engine/ops/copy.h"

#include <cstring>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Copy& op) {
  if (op.from.dtype() == op.to.dtype() && op.scale == 1) {
    const auto size = static_cast<std::int64_t>(size_of(op.from.dtype()));
    parallel_tiles(op.from.numel(), [&](std::int64_t begin, std::int64_t n) {
      std::memmove(op.to.data() + begin * size, op.from.data() + begin * size, static_cast<std::size_t>(n * size));
    });
    return;
  }
  with_type(op.from.dtype(), [&](auto from_type) {
    with_type(op.to.dtype(), [&](auto to_type) {
      using TF = decltype(from_type);
      using TT = decltype(to_type);
      parallel_tiles(op.from.numel(), [&](std::int64_t begin, std::int64_t n) {
        float xb[kTile], yb[kTile];
        const float* x = load(op.from.as<TF>() + begin, xb, n);
        float* y = target(op.to.as<TT>() + begin, yb);
        const float scale = op.scale;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] = scale * x[i];
        store(y, op.to.as<TT>() + begin, n);
      });
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::Fill& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const T value = from_float<T>(op.value);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      std::fill(op.x.as<T>() + begin, op.x.as<T>() + begin + n, value);
    });
  });
}

}  // namespace mbench::cpu
