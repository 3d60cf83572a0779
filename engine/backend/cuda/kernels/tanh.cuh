// y = tanh(x) and its gradient, dx = dy (1 - y^2).
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/tanh.h"

namespace mbench::cuda {

template <class T>
struct TanhEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  T* y;
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = tanhf(z.v[k]);
    store(y + i, z);
  }
};

template <class T>
struct TanhGradEach {
  static constexpr int kWidth = width_of<T>();
  const T *dy, *y;
  T* dx;
  bool aligned() const { return cuda::aligned<kWidth>(dy, y, dx); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> g = load<V>(dy + i);
    const Floats<V> t = load<V>(y + i);
#pragma unroll
    for (int k = 0; k < V; ++k) g.v[k] *= 1.0f - t.v[k] * t.v[k];
    store(dx + i, g);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Tanh& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(), TanhEach<T>{pointer<T>(op.x), pointer<T>(op.y)});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::TanhGrad& op) {
  with_float(op.name, op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.y.numel(), TanhGradEach<T>{pointer<T>(op.dy), pointer<T>(op.y), pointer<T>(op.dx)});
  });
}

}  // namespace mbench::cuda
