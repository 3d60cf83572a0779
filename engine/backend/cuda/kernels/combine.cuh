// Gathers tokens from the rows of the experts, weighted. Of the gradient each row has one block (or one warp) and one pair. So every
// weight's gradient is the sum of one block.
#pragma once
#include "engine/backend/cuda/kernels/gather_rows.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/combine.h"

namespace mbench::cuda {

inline constexpr int kCombineThreads = 256;

template <class T>
struct CombineGradArguments {
  const T *dy, *x;
  const float* weights;
  const std::int64_t *of_pair, *of_row;  // rows and pairs
  T* dx;                                 // may be x: each thread reads a column before it writes it
  float* dweights;
  std::int64_t rows, cols, k, pairs;
};

template <class T, int V>
__global__ void __launch_bounds__(kCombineThreads) combine_grad(CombineGradArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t row = own_row();
  if (row >= a.rows) return;
  T* to = a.dx + row * a.cols;
  const std::int64_t pair = a.of_row[row];
  if (pair < 0 || pair >= a.pairs) {
    for_row<V, 0>(a.cols, [&](int, std::int64_t col) { store(to + col, filled<V>(0)); });
    return;
  }
  const T *x = a.x + row * a.cols, *dy = a.dy + pair / a.k * a.cols;
  const float weight = a.weights[pair];
  float sum = 0;
  for_row<V, 0>(a.cols, [&](int, std::int64_t col) {
    Floats<V> d = load<V>(dy + col);
    const Floats<V> z = load<V>(x + col);
#pragma unroll
    for (int i = 0; i < V; ++i) {
      sum += d.v[i] * z.v[i];
      d.v[i] *= weight;
    }
    store(to + col, d);
  });
  sum = row_reduce(sum, 0.0f, parts, Sum());
  if (threadIdx.x == 0) a.dweights[pair] = sum;
}

struct DroppedWeights {
  static constexpr int kWidth = 1;
  const std::int64_t* of_pair;
  float* dweights;
  std::int64_t rows;
  bool aligned() const { return true; }
  template <int V>
  __device__ void apply(std::int64_t pair) const {
    if (of_pair[pair] < 0 || of_pair[pair] >= rows) dweights[pair] = 0;
  }
};

template <class Stream>
void enqueue(Stream& stream, const ops::Combine& op) {
  with_float(op.name, op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.y.shape().cols();
    launch_columns(stream, op.name, op.y.shape().rows(), cols,
                   GatherEach<T>{pointer<T>(op.x), pointer<std::int64_t>(op.rows), pointer<float>(op.weights),
                                 pointer<T>(op.y), cols, op.rows.shape().cols(), op.x.shape().rows()});
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::CombineGrad& op) {
  const std::int64_t rows = op.x.shape().rows(), cols = op.x.shape().cols();
  launch_flat(stream, op.name, op.rows.numel(),
              DroppedWeights{pointer<std::int64_t>(op.rows), pointer<float>(op.dweights), rows});
  if (rows == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const CombineGradArguments<T> a{pointer<T>(op.dy),
                                    pointer<T>(op.x),
                                    pointer<float>(op.weights),
                                    pointer<std::int64_t>(op.rows),
                                    pointer<std::int64_t>(op.pairs),
                                    pointer<T>(op.dx),
                                    pointer<float>(op.dweights),
                                    rows,
                                    cols,
                                    op.rows.shape().cols(),
                                    op.rows.numel()};
    if (cols % V == 0 && aligned<V>(a.dy, a.x, a.dx))
      stream.launch(op.name, row_shape(rows, cols, V, kCombineThreads), combine_grad<T, V>, a);
    else
      stream.launch(op.name, row_shape(rows, cols, 1, kCombineThreads), combine_grad<T, 1>, a);
  });
}

}  // namespace mbench::cuda
