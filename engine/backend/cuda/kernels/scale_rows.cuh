// Multiplies each row by a number. Of the gradient each row has a block (or a warp), so every number's gradient is the sum of one block.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/scale_rows.h"

namespace mbench::cuda {

inline constexpr int kScaleRowsThreads = 256;

template <class T>
struct ScaleRowsEach {
  static constexpr int kWidth = width_of<T>();
  const T* x;
  const float* weights;
  T* y;
  std::int64_t cols;
  bool aligned() const { return cuda::aligned<kWidth>(x, y); }
  template <int V>
  __device__ char column(std::int64_t) const {
    return 0;  // nothing is kept of a column
  }
  template <int V>
  __device__ void apply(char, std::int64_t row, std::int64_t col) const {
    Floats<V> z = load<V>(x + row * cols + col);
    const float weight = weights[row];
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] *= weight;
    store(y + row * cols + col, z);
  }
};

template <class T>
struct ScaleRowsGradArguments {
  const T *dy, *x;
  const float* weights;
  T* dx;  // may be dy: each thread reads a column before it writes it
  float* dweights;
  std::int64_t rows, cols;
};

template <class T, int V>
__global__ void __launch_bounds__(kScaleRowsThreads) scale_rows_grad(ScaleRowsGradArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t row = own_row();
  if (row >= a.rows) return;
  const T *dy = a.dy + row * a.cols, *x = a.x + row * a.cols;
  T* dx = a.dx + row * a.cols;
  const float weight = a.weights[row];
  float sum = 0;
  for_row<V, 0>(a.cols, [&](int, std::int64_t col) {
    Floats<V> d = load<V>(dy + col);
    const Floats<V> z = load<V>(x + col);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum += d.v[k] * z.v[k];
      d.v[k] *= weight;
    }
    store(dx + col, d);
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) a.dweights[row] = sum;
}

template <class Stream>
void enqueue(Stream& stream, const ops::ScaleRows& op) {
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    launch_columns(stream, op.name, op.x.shape().rows(), cols,
                   ScaleRowsEach<T>{pointer<T>(op.x), pointer<float>(op.weights), pointer<T>(op.y), cols});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::ScaleRowsGrad& op) {
  const std::int64_t rows = op.x.shape().rows(), cols = op.x.shape().cols();
  if (rows == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const ScaleRowsGradArguments<T> a{pointer<T>(op.dy),
                                      pointer<T>(op.x),
                                      pointer<float>(op.weights),
                                      pointer<T>(op.dx),
                                      pointer<float>(op.dweights),
                                      rows,
                                      cols};
    if (cols % V == 0 && aligned<V>(a.dy, a.x, a.dx))
      stream.launch(op.name, row_shape(rows, cols, V, kScaleRowsThreads), scale_rows_grad<T, V>, a);
    else
      stream.launch(op.name, row_shape(rows, cols, 1, kScaleRowsThreads), scale_rows_grad<T, 1>, a);
  });
}

}  // namespace mbench::cuda
