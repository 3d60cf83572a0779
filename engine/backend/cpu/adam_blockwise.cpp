#include "engine/ops/adam_blockwise.h"

#include <cmath>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/element_ranges.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {
namespace {

constexpr std::int64_t kBlock = ops::AdamBlockwise::kBlock;

// n values as codes of the map; returns their scale.
float quantise(const ops::DynamicMap& map, const float* x, std::uint8_t* codes, std::int64_t n) {
  float scale = 0;
  for (std::int64_t i = 0; i < n; ++i) scale = std::max(scale, std::fabs(x[i]));
  const float inverse = scale > 0 ? 1 / scale : 0;
  for (std::int64_t i = 0; i < n; ++i)
    codes[i] = static_cast<std::uint8_t>(ops::nearest_code(map.values, x[i] * inverse));
  return scale;
}

}  // namespace

template <>
void compute(CpuOps&, const ops::AdamBlockwise& op) {
  const double t = static_cast<double>(op.step);
  const auto m_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta1), t)));
  const auto v_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta2), t)));
  const float b1 = op.beta1, b2 = op.beta2, lr = op.lr, eps = op.eps, gs = op.grad_scale;
  const std::int64_t all = op.param.numel();
  const auto step = [&](auto weights, auto type) {
    using P = decltype(weights);
    using T = decltype(type);
    parallel_rows(op.blocks(), kBlock, [&](std::int64_t block) {
      const std::int64_t begin = block * kBlock, n = std::min(kBlock, all - begin);
      float buffer[kBlock], p_buffer[kBlock], m[kBlock], v[kBlock];
      const float* grad = load(op.grad.as<T>() + begin, buffer, n);
      const float* p_old = load(op.param.as<P>() + begin, p_buffer, n);
      float *p = target(op.param.as<P>() + begin, p_buffer), *m_scale = op.m_scale.as<float>() + block,
            *v_scale = op.v_scale.as<float>() + block;
      auto *m_codes = op.m.as<std::uint8_t>() + begin, *v_codes = op.v.as<std::uint8_t>() + begin;
      for (std::int64_t i = 0; i < n; ++i) {
        const float g = gs * grad[i];
        m[i] = b1 * (ops::kSignedMap.values[m_codes[i]] * *m_scale) + (1 - b1) * g;
        v[i] = b2 * (ops::kUnsignedMap.values[v_codes[i]] * *v_scale) + (1 - b2) * g * g;
      }
      for_parts(op.undecayed, begin, n, [&](std::int64_t from, std::int64_t to, bool spared) {
        const float decay = spared ? 0 : op.weight_decay;
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i)
          p[i] = p_old[i] - lr * (m[i] * m_correction / (std::sqrt(v[i] * v_correction) + eps) + decay * p_old[i]);
      });
      store(p, op.param.as<P>() + begin, n);
      *m_scale = quantise(ops::kSignedMap, m, m_codes, n);
      *v_scale = quantise(ops::kUnsignedMap, v, v_codes, n);
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  };
  with_type(op.grad.dtype(),
            [&](auto type) { op.param.dtype() == DType::f32 ? step(float{}, type) : step(bf16{}, type); });
}

}  // namespace mbench::cpu
