// y = x + bias, and the bias's gradient: sums of columns in two stages, without atomics.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/bias_add.h"

namespace mbench::cuda {

template <class T>
struct BiasAddEach {
  static constexpr int kWidth = width_of<T>();
  const T *x, *bias;
  T* y;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, bias, y); }
  template <int V>
  __device__ Floats<V> column(std::int64_t col) const {
    return load<V>(bias + col);
  }
  template <int V>
  __device__ void apply(const Floats<V>& b, std::int64_t row, std::int64_t col) const {
    Floats<V> z = load<V>(x + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] += b.v[k];
    store(y + row * cols + col, z);
  }
};

// partial[chunk, col] = sum over the rows of the chunk of dy[row, col]; a thread owns V columns.
template <int V, class T>
__global__ void __launch_bounds__(kColumnThreads)
    sum_columns(const T* dy, std::int64_t rows, std::int64_t cols, std::int64_t chunk_rows, float* partial) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (col >= cols) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * chunk_rows;
  const std::int64_t end = begin + chunk_rows < rows ? begin + chunk_rows : rows;
  Floats<V> sum = filled<V>(0);
#pragma unroll 4
  for (std::int64_t row = begin; row < end; ++row) {
    const Floats<V> x = load<V>(dy + row * cols + col);
#pragma unroll
    for (int k = 0; k < V; ++k) sum.v[k] += x.v[k];
  }
  store(partial + static_cast<std::int64_t>(blockIdx.y) * cols + col, sum);
}

template <class Stream>
void enqueue(Stream& stream, const ops::BiasAdd& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   BiasAddEach<T>{pointer<T>(op.x), pointer<T>(op.bias), pointer<T>(op.y), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::BiasGrad& op) {
  const std::int64_t rows = op.dy.shape().rows(), cols = op.dy.shape().cols();
  if (rows == 0 || cols == 0) return;
  with_float(op.name, op.dy.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T* dy = pointer<T>(op.dy);
    const bool wide = cols % V == 0 && aligned<V>(dy);
    const ColumnSums plan = column_sums(rows, cols, wide ? V : 1);
    float* partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(plan.chunks * cols) * sizeof(float)));
    stream.launch(op.name, plan.shape, wide ? sum_columns<V, T> : sum_columns<1, T>, dy, rows, cols, plan.chunk_rows,
                  partial);
    with_float(op.name, op.dbias.dtype(), [&](auto to_type) {
      using TD = decltype(to_type);
      stream.launch(op.name, add_chunks_shape(cols, false), add_chunks<TD, float>, partial, plan.chunks, cols, cols,
                    pointer<TD>(op.dbias), nullptr);
    });
  });
}

}  // namespace mbench::cuda
