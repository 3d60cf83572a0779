// Muon's passes over a matrix: momentum, normalisation, and the step with the 16-bit copy of the new weights.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/muon.h"

namespace mbench::cuda {

template <class TG, class TU>
struct MuonMomentumEach {
  static constexpr int kWidth = 4;
  const TG* grad;
  float* momentum;
  TU* update;
  float mu, grad_scale;
  bool aligned() const {
    return cuda::aligned<kWidth>(grad) && cuda::aligned<kWidth>(momentum) && cuda::aligned<kWidth>(update);
  }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    const Floats<V> gradient = load<V>(grad + i);
    Floats<V> m = load<V>(momentum + i), u;
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float g = (1 - mu) * (grad_scale * gradient.v[k]);
      m.v[k] = mu * m.v[k] + g;
      u.v[k] = mu * m.v[k] + g;
    }
    store(momentum + i, m);
    store(update + i, u);
  }
};

template <class T>
struct MuonNormaliseEach {
  static constexpr int kWidth = width_of<T>();
  const T* u;
  const float* squares;
  T* x;
  float eps;
  bool aligned() const { return cuda::aligned<kWidth>(u, x); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    const float norm = sqrtf(*squares), by = 1.0f / (norm > eps ? norm : eps);
    Floats<V> z = load<V>(u + i);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] *= by;
    store(x + i, z);
  }
};

template <class T, class TM>
struct MuonUpdateEach {
  static constexpr int kWidth = 4;
  float* param;
  const T* x;
  TM* model;  // null: none
  float lr, decay;
  bool aligned() const {
    return cuda::aligned<kWidth>(param) && cuda::aligned<kWidth>(x) && cuda::aligned<kWidth>(model);
  }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> p = load<V>(param + i);
    const Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) p.v[k] = (1 - decay) * p.v[k] - lr * z.v[k];
    store(param + i, p);
    if (model != nullptr) store(model + i, p);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::MuonMomentum& op) {
  with_float(op.name, op.grad.dtype(), [&](auto grad_type) {
    with_float(op.name, op.update.dtype(), [&](auto update_type) {
      using TG = decltype(grad_type);
      using TU = decltype(update_type);
      launch_flat(stream, op.name, op.grad.numel(),
                  MuonMomentumEach<TG, TU>{pointer<TG>(op.grad), pointer<float>(op.momentum), pointer<TU>(op.update),
                                           op.mu, op.grad_scale});
    });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::MuonNormalise& op) {
  with_float(op.name, op.u.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.u.numel(),
                MuonNormaliseEach<T>{pointer<T>(op.u), pointer<float>(op.squares), pointer<T>(op.x), op.eps});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::MuonUpdate& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    with_float(op.name, op.model ? op.model.dtype() : DType::f32, [&](auto model_type) {
      using T = decltype(type);
      using TM = decltype(model_type);
      launch_flat(stream, op.name, op.param.numel(),
                  MuonUpdateEach<T, TM>{pointer<float>(op.param), pointer<T>(op.x),
                                        op.model ? pointer<TM>(op.model) : nullptr, op.lr, op.decay});
    });
  });
}

}  // namespace mbench::cuda
