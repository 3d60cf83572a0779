// Dropout and its gradient. The gradient reads the stored mask or draws the same words again.
#pragma once
#include "engine/backend/cuda/kernels/dropout_rows.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"

namespace mbench::cuda {

struct NothingKept {};

template <class T>
struct DropoutEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  T* y;
  std::uint8_t* mask;  // null: not wanted
  Drops drops;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, y) && cuda::aligned<kWidth>(mask); }
  template <int V>
  __device__ NothingKept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(NothingKept, std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * cols + col;
    Floats<V> z = load<V>(x + at);
    const Floats<V> factor = drops.template factors<V>(row, col);
    if (mask != nullptr) store_mask(mask + at, factor);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] *= factor.v[k];
    store(y + at, z);
  }
};

template <class T>
struct MaskedGradEach {  // dx = mask ? scale dy : 0
  static constexpr int kWidth = width_of<T>();
  const T* dy;
  T* dx;
  const std::uint8_t* mask;
  float scale;
  bool aligned() const { return cuda::aligned<kWidth>(dy, dx) && cuda::aligned<kWidth>(mask); }
  template <int V>
  __device__ void apply(std::int64_t i) const {
    Floats<V> g = load<V>(dy + i);
    const Pack<std::uint8_t, V> kept = load_pack<V>(mask + i);
#pragma unroll
    for (int k = 0; k < V; ++k) g.v[k] *= kept.v[k] != 0 ? scale : 0.0f;
    store(dx + i, g);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Dropout& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   DropoutEach<T>{pointer<T>(op.x), pointer<T>(op.y), pointer<std::uint8_t>(op.mask),
                                  drops_of(op.name, op.dropout, op.map, op.x.shape()), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::DropoutGrad& op) {
  with_float(op.name, op.dy.dtype(), [&](auto type) {
    using T = decltype(type);
    if (op.mask) {
      launch_flat(stream, op.name, op.dy.numel(),
                  MaskedGradEach<T>{pointer<T>(op.dy), pointer<T>(op.dx), pointer<std::uint8_t>(op.mask),
                                    keep_scale(op.dropout)});
      return;
    }
    const std::int64_t cols = op.dy.shape().cols();
    launch_columns(stream, op.name, op.dy.shape().rows(), cols,
                   DropoutEach<T>{pointer<T>(op.dy), pointer<T>(op.dx), nullptr,
                                  drops_of(op.name, op.dropout, op.map, op.dy.shape()), cols});
  });
}

}  // namespace mbench::cuda
