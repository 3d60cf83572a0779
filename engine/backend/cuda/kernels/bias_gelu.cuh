// y = gelu(x + bias), with x + bias kept if wanted, and dx = dy gelu'(x + bias); the bias may be missing.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/gelu_math.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/bias_gelu.h"

namespace mbench::cuda {

template <class T>
struct BiasGeluEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *bias;
  T *y, *sum;  // sum may be missing, or x
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, bias, y, sum); }
  template <int V>
  __device__ Floats<V> column(std::int64_t col) const {
    return bias != nullptr ? load<V>(bias + col) : filled<V>(0);
  }
  template <int V>
  __device__ void apply(const Floats<V>& b, std::int64_t row, std::int64_t col) const {
    Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] += b.v[k];
    if (sum != nullptr) store(sum + row * cols + col, z);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = gelu<T>(z.v[k]);
    store(y + row * cols + col, z);
  }
};

template <class T>
struct BiasGeluGradEach {
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
    Floats<V> g = load<V>(dy + row * cols + col);
    const Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) g.v[k] *= gelu_slope<T>(z.v[k] + b.v[k]);
    store(dx + row * cols + col, g);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::BiasGelu& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   BiasGeluEach<T>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.y), pointer<T>(op.sum), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::BiasGeluGrad& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(
        stream, op.name, op.x.shape().rows(), cols,
        BiasGeluGradEach<T>{pointer<T>(op.dy), pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.dx), cols});
  });
}

}  // namespace mbench::cuda
