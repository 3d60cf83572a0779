// y = a + b.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/add.h"

namespace mbench::cuda {

template <class T, class B>
struct AddEach {
  static constexpr int kWidth = width_of<T>() < width_of<B>() ? width_of<T>() : width_of<B>();
  const T* a;
  const B* b;
  T* y;
  bool aligned() const { return cuda::aligned<kWidth>(a, b, y); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> x = load<V>(a + i);
    const Floats<V> z = load<V>(b + i);
#pragma unroll
    for (int k = 0; k < V; ++k) x.v[k] += z.v[k];
    store(y + i, x);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Add& op) {
  with_float(op.name, op.a.dtype(), [&](auto type) {
    with_float(op.name, op.b.dtype(), [&](auto added) {
      using T = decltype(type);
      using B = decltype(added);
      launch_flat(stream, op.name, op.a.numel(), AddEach<T, B>{pointer<T>(op.a), pointer<B>(op.b), pointer<T>(op.y)});
    });
  });
}

}  // namespace mbench::cuda
