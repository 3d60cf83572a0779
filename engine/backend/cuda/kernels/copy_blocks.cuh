// Copies blocks of rows x cols from one strided place to another, in their storage type.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/copy_blocks.h"

namespace mbench::cuda {

// Row i of [batch * rows, cols] is row i % rows of block i / rows.
template <class T>
struct CopyBlocksEach {
  static constexpr int kWidth = width_of<T>();
  const T* from;
  T* to;
  std::int64_t rows, from_ld, from_stride, to_ld, to_stride;
  struct Column {};
  bool aligned() const {
    return cuda::aligned<kWidth>(from) && cuda::aligned<kWidth>(to) && from_ld % kWidth == 0 &&
           from_stride % kWidth == 0 && to_ld % kWidth == 0 && to_stride % kWidth == 0;
  }
  template <int V>
  __device__ Column column(std::int64_t) const {
    return {};
  }
  template <int V>
  __device__ void apply(const Column&, std::int64_t i, std::int64_t col) const {
    const std::int64_t block = i / rows, row = i % rows;
    store_pack(to + block * to_stride + row * to_ld + col,
               load_pack<V>(from + block * from_stride + row * from_ld + col));
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::CopyBlocks& op) {
  const auto copy = [&](auto type) {
    using T = decltype(type);
    launch_columns(stream, op.name, op.batch * op.from.rows, op.from.cols,
                   CopyBlocksEach<T>{pointer<T>(op.from.data) + op.from.offset, pointer<T>(op.to.data) + op.to.offset,
                                     op.from.rows, op.from.ld, op.from.batch_stride, op.to.ld, op.to.batch_stride});
  };
  const DType type = op.from.data.dtype();
  size_of(type) == 1 ? copy(std::uint8_t{}) : with_float(op.name, type, copy);
}

}  // namespace mbench::cuda
