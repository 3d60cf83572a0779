#include "engine/ops/muon.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::MuonMomentum& op) {
  with_type(op.grad.dtype(), [&](auto grad_type) {
    with_type(op.update.dtype(), [&](auto update_type) {
      using TG = decltype(grad_type);
      using TU = decltype(update_type);
      parallel_tiles(op.grad.numel(), [&](std::int64_t begin, std::int64_t n) {
        float gb[kTile], ub[kTile];
        const float mu = op.mu, mine = 1 - op.mu, scale = op.grad_scale;  // here: what is captured, m might alias
        const float* grad = load(static_cast<const TG*>(op.grad.as<TG>()) + begin, gb, n);
        float *m = op.momentum.as<float>() + begin, *u = target(op.update.as<TU>() + begin, ub);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const float g = mine * (scale * grad[i]), now = mu * m[i] + g;
          m[i] = now;
          u[i] = mu * now + g;
        }
        store(u, op.update.as<TU>() + begin, n);
      });
    });
  });
}

template <>
void compute(CpuOps&, const ops::MuonNormalise& op) {
  const float by = 1 / std::max(std::sqrt(*op.squares.as<float>()), op.eps);
  with_type(op.u.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.u.numel(), [&](std::int64_t begin, std::int64_t n) {
      float ub[kTile], xb[kTile];
      const float* u = load(static_cast<const T*>(op.u.as<T>()) + begin, ub, n);
      float* x = target(op.x.as<T>() + begin, xb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) x[i] = by * u[i];
      store(x, op.x.as<T>() + begin, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::MuonUpdate& op) {
  const float lr = op.lr, kept = 1 - op.decay;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.param.numel(), [&](std::int64_t begin, std::int64_t n) {
      float xb[kTile];
      const float* x = load(static_cast<const T*>(op.x.as<T>()) + begin, xb, n);
      float* p = op.param.as<float>() + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) p[i] = kept * p[i] - lr * x[i];
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  });
}

}  // namespace mbench::cpu
