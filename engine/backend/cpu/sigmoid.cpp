#include "engine/ops/sigmoid.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Sigmoid& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.x.numel(), [&](std::int64_t begin, std::int64_t n) {
      float xb[kTile];
      const float* x = load(op.x.as<T>() + begin, xb, n);
      float* y = op.y.as<float>() + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = 1.0f / (1.0f + exp_f32(-x[i]));
    });
  });
}

template <>
void compute(CpuOps&, const ops::SigmoidGrad& op) {
  with_type(op.dx.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.y.numel(), [&](std::int64_t begin, std::int64_t n) {
      float out[kTile];
      const float *dy = op.dy.as<float>() + begin, *y = op.y.as<float>() + begin;
      float* dx = target(op.dx.as<T>() + begin, out);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * y[i] * (1.0f - y[i]);
      store(dx, op.dx.as<T>() + begin, n);
    });
  });
}

}  // namespace mbench::cpu
