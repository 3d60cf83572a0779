#include "engine/ops/adam.h"

#include <algorithm>
#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

auto first_ending_after(ops::ElementRanges ranges, std::int64_t element) {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [&](const ops::ElementRange& r) { return r.end <= element; });
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::Adam& op) {
  const double t = static_cast<double>(op.step);
  const auto m_scale = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta1), t)));
  const auto v_scale = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta2), t)));
  const float b1 = op.beta1, b2 = op.beta2, lr = op.lr, eps = op.eps, gs = op.grad_scale;
  const auto step = [&](auto type, auto moments) {
    using T = decltype(type);
    using M = decltype(moments);
    parallel_tiles(op.param.numel(), [&](std::int64_t begin, std::int64_t n) {
      float buffer[kTile], m_buffer[kTile], v_buffer[kTile];
      const float* grad = load(op.grad.as<T>() + begin, buffer, n);
      float* p = op.param.as<float>() + begin;
      // As they are stored, or converted.
      const float *m_old = load(op.m.as<M>() + begin, m_buffer, n),
                  *v_old = load(op.v.as<M>() + begin, v_buffer, n);
      float *m = target(op.m.as<M>() + begin, m_buffer), *v = target(op.v.as<M>() + begin, v_buffer);
      const auto update = [&](std::int64_t from, std::int64_t to, float decay) {
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) {
          const float g = gs * grad[i];
          m[i] = b1 * m_old[i] + (1 - b1) * g;
          v[i] = b2 * v_old[i] + (1 - b2) * g * g;
          p[i] -= lr * (m[i] * m_scale / (std::sqrt(v[i] * v_scale) + eps) + decay * p[i]);
        }
      };
      // The tile's part of each range, and what lies before it.
      std::int64_t done = 0;
      for (auto r = first_ending_after(op.undecayed, begin); r != op.undecayed.end() && r->begin < begin + n;
           ++r) {
        const std::int64_t from = std::max<std::int64_t>(r->begin - begin, 0),
                           to = std::min(r->end - begin, n);
        update(done, from, op.weight_decay);
        update(from, to, 0);
        done = to;
      }
      update(done, n, op.weight_decay);
      store(m, op.m.as<M>() + begin, n);
      store(v, op.v.as<M>() + begin, n);
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  };
  with_type(op.grad.dtype(),
            [&](auto type) { with_type(op.m.dtype(), [&](auto moments) { step(type, moments); }); });
}

}  // namespace mbench::cpu
