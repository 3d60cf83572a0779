// y = 1 / (1 + e^-x) in f32, and dx = dy y (1 - y).
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/sigmoid.h"

namespace mbench::cuda {

template <class T>
struct SigmoidEach {
  static constexpr int kWidth = width_of<float>();
  const T* x;
  float* y;
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = 1.0f / (1.0f + expf(-z.v[k]));
    store(y + i, z);
  }
};

template <class T>
struct SigmoidGradEach {
  static constexpr int kWidth = width_of<float>();
  const float *dy, *y;
  T* dx;
  bool aligned() const { return cuda::aligned<kWidth>(dy, y, dx); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> d = load<V>(dy + i);
    const Floats<V> s = load<V>(y + i);
#pragma unroll
    for (int k = 0; k < V; ++k) d.v[k] = d.v[k] * s.v[k] * (1.0f - s.v[k]);
    store(dx + i, d);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Sigmoid& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(), SigmoidEach<T>{pointer<T>(op.x), pointer<float>(op.y)});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::SigmoidGrad& op) {
  with_float(op.name, op.dx.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.y.numel(),
                SigmoidGradEach<T>{pointer<float>(op.dy), pointer<float>(op.y), pointer<T>(op.dx)});
  });
}

}  // namespace mbench::cuda
