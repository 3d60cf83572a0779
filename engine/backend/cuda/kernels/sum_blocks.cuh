// The sum of a batch of blocks of rows x cols. A thread owns a vector of columns of a row and walks the batch in order.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/sum_blocks.h"

namespace mbench::cuda {

template <class T>
struct SumBlocksEach {
  static constexpr int kWidth = width_of<T>();
  const T* from;
  T* to;
  std::int64_t batch, from_ld, from_stride, to_ld;
  struct Column {};
  bool aligned() const {
    return cuda::aligned<kWidth>(from, to) && from_ld % kWidth == 0 && from_stride % kWidth == 0 && to_ld % kWidth == 0;
  }
  template <int V>
  __device__ Column column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(const Column&, std::int64_t row, std::int64_t col) const {
    const T* at = from + row * from_ld + col;
    Floats<V> sum = filled<V>(0);
    for (std::int64_t i = 0; i < batch; ++i) {
      const Floats<V> x = load<V>(at + i * from_stride);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += x.v[k];
    }
    store(to + row * to_ld + col, sum);
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::SumBlocks& op) {
  with_float(op.name, op.from.data.dtype(), [&](auto type) {
    using T = decltype(type);
    launch_columns(stream, op.name, op.from.rows, op.from.cols,
                   SumBlocksEach<T>{pointer<T>(op.from.data) + op.from.offset, pointer<T>(op.to.data) + op.to.offset,
                                    op.batch, op.from.ld, op.from.batch_stride, op.to.ld});
  });
}

}  // namespace mbench::cuda
