// Activations of x + bias by element, and their gradients; the bias may be missing. F<T> has the function and its slope for results stored
// as T:
//   static __device__ float value(float z);
//   static __device__ float slope(float z);
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"

namespace mbench::cuda {

template <class T, class F>
struct ActivationEach {
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
    for (int k = 0; k < V; ++k) z.v[k] = F::value(z.v[k] + b.v[k]);
    store(y + row * cols + col, z);
  }
};

template <class T, class F>
struct ActivationGradEach {
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
    for (int k = 0; k < V; ++k) d.v[k] *= F::slope(z.v[k] + b.v[k]);
    store(dx + row * cols + col, d);
  }
};

template <template <class> class F, class Stream, class Op>
void launch_activation(Stream& stream, const Op& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   ActivationEach<T, F<T>>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.y), cols});
  });
}

template <template <class> class F, class Stream, class Op>
void launch_activation_grad(Stream& stream, const Op& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(
        stream, op.name, op.x.shape().rows(), cols,
        ActivationGradEach<T, F<T>>{pointer<T>(op.dy), pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.dx), cols});
  });
}

}  // namespace mbench::cuda
