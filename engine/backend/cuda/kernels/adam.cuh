// One AdamW step, and the 16-bit copy of the new weights in the same pass.
#pragma once
#include <type_traits>

#include "engine/backend/cuda/kernels/borders.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/adam.h"

namespace mbench::cuda {

template <class TP, class TG, class TM, class TV>
struct AdamEach {
  static constexpr int kWidth = 4;  // 16 bytes of each f32 tensor, which are most of the traffic
  TP* param;
  TV *m, *v;
  const TG* grad;
  TM* model;  // null: none
  float lr, beta1, beta2, eps, weight_decay, grad_scale, m_scale, v_scale;
  Borders undecayed;
  const float* by_step;  // null: the four above are this step's
  bool aligned() const {
    return whole_vectors(undecayed, kWidth) && cuda::aligned<kWidth>(param) && cuda::aligned<kWidth>(m, v) &&
           cuda::aligned<kWidth>(grad) && cuda::aligned<kWidth>(model);
  }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    const bool given = by_step == nullptr;
    const float scale_now = given ? grad_scale : by_step[ops::kStepGradScale];
    if (scale_now != scale_now) return;
    const float rate = given ? lr : by_step[ops::kStepRate], m_now = given ? m_scale : by_step[ops::kStepMScale],
                v_now = given ? v_scale : by_step[ops::kStepVScale];
    Floats<V> p = load<V>(param + i), first = load<V>(m + i), second = load<V>(v + i);
    const Floats<V> gradient = load<V>(grad + i);
    const float decay = undecayed.inside(i) ? 0.0f : weight_decay;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float g = scale_now * gradient.v[k];
      first.v[k] = beta1 * first.v[k] + (1 - beta1) * g;
      second.v[k] = beta2 * second.v[k] + (1 - beta2) * g * g;
      p.v[k] -= rate * (first.v[k] * m_now / (sqrtf(second.v[k] * v_now) + eps) + decay * p.v[k]);
    }
    store(param + i, p);
    store(m + i, first);
    store(v + i, second);
    if (model != nullptr) store(model + i, p);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Adam& op) {
  const float m_scale = op.m_scale(), v_scale = op.v_scale();
  with_float(op.name, op.grad.dtype(), [&](auto grad_type) {
    with_float(op.name, op.model ? op.model.dtype() : DType::f32, [&](auto model_type) {
      with_float(op.name, op.m.dtype(), [&](auto moment_type) {
        using TG = decltype(grad_type);
        using TM = decltype(model_type);
        using TV = decltype(moment_type);
        const auto launch = [&](auto param_type) {
          using TP = decltype(param_type);
          for_pieces(op.undecayed, op.param.numel(), [&](std::int64_t at, std::int64_t n, const Borders& borders) {
            launch_flat(
                stream, op.name, n,
                AdamEach<TP, TG, TM, TV>{pointer<TP>(op.param) + at, pointer<TV>(op.m) + at, pointer<TV>(op.v) + at,
                                         pointer<TG>(op.grad) + at, op.model ? pointer<TM>(op.model) + at : nullptr,
                                         op.lr, op.beta1, op.beta2, op.eps, op.weight_decay, op.grad_scale, m_scale,
                                         v_scale, borders, pointer<float>(op.by_step)});
          });
        };
        // Weights updated in bf16 have no copy, so one type of copy is enough.
        if constexpr (std::is_same_v<TM, float>)
          if (op.param.dtype() == DType::bf16) return launch(bf16{});
        launch(float{});
      });
    });
  });
}

}  // namespace mbench::cuda
