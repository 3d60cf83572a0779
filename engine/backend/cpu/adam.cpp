#include "engine/ops/adam.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

void CpuOps::run(const ops::Adam& op) {
  const double t = static_cast<double>(op.step);
  const auto m_scale = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta1), t)));
  const auto v_scale = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta2), t)));
  const float b1 = op.beta1, b2 = op.beta2, lr = op.lr, eps = op.eps, decay = op.weight_decay,
              gs = op.grad_scale;
  with_type(op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.param.numel(), [&](std::int64_t begin, std::int64_t n) {
      float buffer[kTile];
      const float* grad = load(op.grad.as<T>() + begin, buffer, n);
      float *p = op.param.as<float>() + begin, *m = op.m.as<float>() + begin, *v = op.v.as<float>() + begin;
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float g = gs * grad[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        p[i] -= lr * (m[i] * m_scale / (std::sqrt(v[i] * v_scale) + eps) + decay * p[i]);
      }
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  });
}

}  // namespace mbench::cpu
