// One step of SGD with momentum, and the 16-bit copy of the new weights in the same pass.
#pragma once
#include "engine/backend/cuda/kernels/borders.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/sgd.h"

namespace mbench::cuda {

template <class TG, class TM>
struct SgdEach {
  static constexpr int kWidth = 4;  // 16 bytes of each f32 tensor, which are most of the traffic
  float *param, *velocity;
  const TG* grad;
  TM* model;  // null: none
  float lr, momentum, weight_decay, grad_scale;
  Borders undecayed;
  bool aligned() const {
    return whole_vectors(undecayed, kWidth) && cuda::aligned<kWidth>(param, velocity) && cuda::aligned<kWidth>(grad) &&
           cuda::aligned<kWidth>(model);
  }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> p = load<V>(param + i), b = load<V>(velocity + i);
    const Floats<V> gradient = load<V>(grad + i);
    const float decay = undecayed.inside(i) ? 0.0f : weight_decay;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      b.v[k] = momentum * b.v[k] + (grad_scale * gradient.v[k] + decay * p.v[k]);
      p.v[k] -= lr * b.v[k];
    }
    store(param + i, p);
    store(velocity + i, b);
    if (model != nullptr) store(model + i, p);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Sgd& op) {
  with_float(op.name, op.grad.dtype(), [&](auto grad_type) {
    with_float(op.name, op.model ? op.model.dtype() : DType::f32, [&](auto model_type) {
      using TG = decltype(grad_type);
      using TM = decltype(model_type);
      for_pieces(op.undecayed, op.param.numel(), [&](std::int64_t at, std::int64_t n, const Borders& borders) {
        launch_flat(stream, op.name, n,
                    SgdEach<TG, TM>{pointer<float>(op.param) + at, pointer<float>(op.velocity) + at,
                                    pointer<TG>(op.grad) + at, op.model ? pointer<TM>(op.model) + at : nullptr, op.lr,
                                    op.momentum, op.weight_decay, op.grad_scale, borders});
      });
    });
  });
}

}  // namespace mbench::cuda
