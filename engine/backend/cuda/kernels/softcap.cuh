// y = cap tanh(x / cap), and dx = dy (1 - tanh(x / cap)^2).
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/softcap.h"

namespace mbench::cuda {

template <class T>
struct SoftcapEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  T* y;
  float cap, inverse;
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = cap * tanhf(z.v[k] * inverse);
    store(y + i, z);
  }
};

template <class T>
struct SoftcapGradEach {
  static constexpr int kWidth = width_of<T>();
  const T *dy, *x;
  T* dx;
  float inverse;
  bool aligned() const { return cuda::aligned<kWidth>(dy, x, dx); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> g = load<V>(dy + i);
    const Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float t = tanhf(z.v[k] * inverse);
      g.v[k] *= 1.0f - t * t;
    }
    store(dx + i, g);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Softcap& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(),
                SoftcapEach<T>{pointer<T>(op.x), pointer<T>(op.y), op.cap, 1.0f / op.cap});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::SoftcapGrad& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(),
                SoftcapGradEach<T>{pointer<T>(op.dy), pointer<T>(op.x), pointer<T>(op.dx), 1.0f / op.cap});
  });
}

}  // namespace mbench::cuda
