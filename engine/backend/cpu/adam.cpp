#include "engine/ops/adam.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/element_ranges.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
template <>
void compute(CpuOps& cpu, const ops::Adam& op) {
  const float* const now = op.by_step ? op.by_step.as<float>() : nullptr;
  if (now && std::isnan(now[ops::kStepGradScale])) return;
  const float m_scale = now ? now[ops::kStepMScale] : op.m_scale(),
              v_scale = now ? now[ops::kStepVScale] : op.v_scale(), lr = now ? now[ops::kStepRate] : op.lr,
              gs = now ? now[ops::kStepGradScale] : op.grad_scale;
  const float b1 = op.beta1, b2 = op.beta2, eps = op.eps;
  const auto step = [&](auto weights, auto type, auto moments) {
    using P = decltype(weights);
    using T = decltype(type);
    using M = decltype(moments);
    parallel_tiles(op.param.numel(), [&](std::int64_t begin, std::int64_t n) {
      float buffer[kTile], p_buffer[kTile], m_buffer[kTile], v_buffer[kTile];
      const float* grad = load(op.grad.as<T>() + begin, buffer, n);
      // As they are stored, or converted.
      const float *p_old = load(op.param.as<P>() + begin, p_buffer, n),
                  *m_old = load(op.m.as<M>() + begin, m_buffer, n), *v_old = load(op.v.as<M>() + begin, v_buffer, n);
      float *p = target(op.param.as<P>() + begin, p_buffer), *m = target(op.m.as<M>() + begin, m_buffer),
            *v = target(op.v.as<M>() + begin, v_buffer);
      const auto update = [&](std::int64_t from, std::int64_t to, float decay) {
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) {
          const float g = gs * grad[i];
          m[i] = b1 * m_old[i] + (1 - b1) * g;
          v[i] = b2 * v_old[i] + (1 - b2) * g * g;
          p[i] = p_old[i] - lr * (m[i] * m_scale / (std::sqrt(v[i] * v_scale) + eps) + decay * p_old[i]);
        }
      };
      for_parts(op.undecayed, begin, n, [&](std::int64_t from, std::int64_t to, bool spared) {
        update(from, to, spared ? 0 : op.weight_decay);
      });
      store(p, op.param.as<P>() + begin, n);
      store(m, op.m.as<M>() + begin, n);
      store(v, op.v.as<M>() + begin, n);
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  };
  with_type(op.grad.dtype(), [&](auto type) {
    with_type(op.m.dtype(), [&](auto moments) {
      op.param.dtype() == DType::f32 ? step(float{}, type, moments) : step(bf16{}, type, moments);
    });
  });
}

}  // namespace mbench::cpu
