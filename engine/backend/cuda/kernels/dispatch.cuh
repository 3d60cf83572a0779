// Gathers the experts' rows from the tokens, and the tokens' gradients from the rows' gradients.
#pragma once
#include "engine/backend/cuda/kernels/gather_rows.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/dispatch.h"

namespace mbench::cuda {

template <class T>
struct DispatchEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  const std::int64_t* of_row;  // pairs
  T* y;
  std::int64_t cols, k, pairs;
  struct Kept {};
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ Kept column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(Kept, std::int64_t row, std::int64_t col) const {
    const std::int64_t pair = of_row[row];
    if (pair < 0 || pair >= pairs)
      store(y + row * cols + col, filled<V>(0));
    else
      store_pack(y + row * cols + col, load_pack<V>(x + pair / k * cols + col));
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Dispatch& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.pairs.numel(), cols,
                   DispatchEach<T>{pointer<T>(op.x), pointer<std::int64_t>(op.pairs), pointer<T>(op.y), cols, op.k,
                                   op.x.shape().rows() * op.k});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::DispatchGrad& op) {
  with_float(op.name, op.dx.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.dx.shape().cols();
    launch_columns(stream, op.name, op.dx.shape().rows(), cols,
                   GatherEach<T>{pointer<T>(op.dy), pointer<std::int64_t>(op.rows), nullptr, pointer<T>(op.dx), cols,
                                 op.rows.shape().cols(), op.dy.shape().rows()});
  });
}

}  // namespace mbench::cuda
