// y = factor x.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/scale.h"

namespace mbench::cuda {

template <class T>
struct ScaleEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  T* y;
  float factor;
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> z = load<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] *= factor;
    store(y + i, z);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Scale& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(), ScaleEach<T>{pointer<T>(op.x), pointer<T>(op.y), op.factor});
  });
}

}  // namespace mbench::cuda
