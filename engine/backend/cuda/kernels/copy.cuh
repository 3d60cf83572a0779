// to = scale * from between any two storage types, and fill.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/copy.h"

namespace mbench::cuda {

template <class TF, class TT>
struct CopyEach {
  static constexpr int kWidth = width_of<TF, TT>();
  const TF* from;
  TT* to;
  float scale;
  bool aligned() const { return cuda::aligned<kWidth>(from) && cuda::aligned<kWidth>(to); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> x = load<V>(from + i);
#pragma unroll
    for (int k = 0; k < V; ++k) x.v[k] *= scale;
    store(to + i, x);
  }
};

template <class T>
struct FillEach {
  static constexpr int kWidth = width_of<T>();
  T* x;
  float value;
  bool aligned() const { return cuda::aligned<kWidth>(x); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    store(x + i, filled<V>(value));
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Copy& op) {
  with_float(op.name, op.from.dtype(), [&](auto from_type) {
    with_float(op.name, op.to.dtype(), [&](auto to_type) {
      using TF = decltype(from_type);
      using TT = decltype(to_type);
      launch_flat(stream, op.name, op.from.numel(),
                  CopyEach<TF, TT>{pointer<TF>(op.from), pointer<TT>(op.to), op.scale});
    });
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::Fill& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_flat(stream, op.name, op.x.numel(), FillEach<T>{pointer<T>(op.x), op.value});
  });
}

}  // namespace mbench::cuda
