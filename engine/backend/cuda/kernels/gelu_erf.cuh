// y = z Phi(z), z = x + bias, and its gradient; the bias may be missing.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/gelu_erf.h"

namespace mbench::cuda {

__device__ inline float normal_phi(float z) {
  return 0.5f * erfcf(-0.70710678f * z);
}

template <class T>
struct GeluErfEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *bias;
  T* y;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, bias, y); }
  template <int V>
  __device__ Floats<V> column(std::int64_t col) const {
    return bias != nullptr ? load<V>(bias + col) : filled<V>(0);
  }
  template <int V>
  __device__ void apply(const Floats<V>& b, std::int64_t row, std::int64_t col) const {
    Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float sum = z.v[k] + b.v[k];
      z.v[k] = sum * normal_phi(sum);
    }
    store(y + row * cols + col, z);
  }
};

template <class T>
struct GeluErfGradEach {
  static constexpr int kWidth = width_of<T>();
  const T *dy, *x, *bias;
  T* dx;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(dy, x, bias, dx); }
  template <int V>
  __device__ Floats<V> column(std::int64_t col) const {
    return bias != nullptr ? load<V>(bias + col) : filled<V>(0);
  }
  template <int V>
  __device__ void apply(const Floats<V>& b, std::int64_t row, std::int64_t col) const {
    Floats<V> d = load<V>(dy + row * cols + col);
    const Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const float sum = z.v[k] + b.v[k];
      d.v[k] *= normal_phi(sum) + sum * 0.39894228f * exp_for<T>(-0.5f * sum * sum);
    }
    store(dx + row * cols + col, d);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::GeluErf& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   GeluErfEach<T>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.y), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::GeluErfGrad& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   GeluErfGradEach<T>{pointer<T>(op.dy), pointer<T>(op.x), pointer<T>(op.bias),
                                      pointer<T>(op.dx), cols});
  });
}

}  // namespace mbench::cuda
