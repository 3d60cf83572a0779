#include "engine/ops/softcap.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Softcap& op) {
  const float inverse = 1.0f / op.cap;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      float xb[kTile], yb[kTile];
      const float* x = load(op.x.as<T>() + begin, xb, n);
      float* y = target(op.y.as<T>() + begin, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = op.cap * tanh_f32(x[i] * inverse);
      store(y, op.y.as<T>() + begin, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::SoftcapGrad& op) {
  const float inverse = 1.0f / op.cap;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      float db[kTile], xb[kTile], out[kTile];
      const float* dy = load(op.dy.as<T>() + begin, db, n);
      const float* x = load(op.x.as<T>() + begin, xb, n);
      float* dx = target(op.dx.as<T>() + begin, out);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float t = tanh_f32(x[i] * inverse);
        dx[i] = dy[i] * (1.0f - t * t);
      }
      store(dx, op.dx.as<T>() + begin, n);
    });
  });
}

}  // namespace mbench::cpu
