// y = residual + scale * dropout(x + bias).
#pragma once
#include "engine/backend/cuda/kernels/dropout_rows.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/bias_dropout_add.h"

namespace mbench::cuda {

template <class T>
struct BiasDropoutAddEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *bias, *residual;
  T* y;
  std::uint8_t* mask;  // null: not wanted
  Drops drops;
  std::int64_t cols;
  float scale;
  bool aligned() const { return cuda::aligned<kWidth>(x, bias, residual, y) && cuda::aligned<kWidth>(mask); }
  template <int V>
  __device__ Floats<V> column(std::int64_t col) const {
    return bias != nullptr ? load<V>(bias + col) : filled<V>(0);
  }
  template <int V>
  __device__ void apply(const Floats<V>& b, std::int64_t row, std::int64_t col) const {
    const std::int64_t at = row * cols + col;
    const Floats<V> z = load<V>(x + at);
    Floats<V> sum = load<V>(residual + at);
    const Floats<V> factor = drops.template factors<V>(row, col);
    if (mask != nullptr) store_mask(mask + at, factor);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += (z.v[k] + b.v[k]) * (factor.v[k] * scale);
    store(y + at, sum);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::BiasDropoutAdd& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   BiasDropoutAddEach<T>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.residual),
                                         pointer<T>(op.y), pointer<std::uint8_t>(op.mask),
                                         drops_of(op.name, op.dropout, op.map, op.x.shape()), cols, op.scale});
  });
}

}  // namespace mbench::cuda
