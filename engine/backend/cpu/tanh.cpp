#include "engine/ops/tanh.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Tanh& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      float xb[kTile], yb[kTile];
      const float* x = load(op.x.as<T>() + begin, xb, n);
      float* y = target(op.y.as<T>() + begin, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = tanh_f32(x[i]);
      store(y, op.y.as<T>() + begin, n);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::TanhGrad& op) {
  with_type(op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.y.numel(), [&](std::int64_t begin, std::int64_t n) {
      float db[kTile], yb[kTile], xb[kTile];
      const float* dy = load(op.dy.as<T>() + begin, db, n);
      const float* y = load(op.y.as<T>() + begin, yb, n);
      float* dx = target(op.dx.as<T>() + begin, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * (1.0f - y[i] * y[i]);
      store(dx, op.dx.as<T>() + begin, n);
    });
  });
}

}  // namespace mbench::cpu
