// sum += sum(x^2), in f64 and in two stages: the same bits every time.
#pragma once
#include "engine/backend/cuda/kernels/add_squares.h"
#include "engine/backend/cuda/kernels/borders.h"
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/sum_squares.h"

namespace mbench::cuda {

// partial[block]: a vector's squares are added in f32, the vectors in f64. Only elements in a range count.
template <int V, class T>
__global__ void __launch_bounds__(kFlatThreads) sum_squares(const T* x, std::int64_t n, Borders only, double* partial) {
  __shared__ SharedArray<double, kWarp> parts;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t whole = n / V * V;
  double sum = 0;
  for (std::int64_t i = thread * V; i < whole; i += threads * V) {
    if (!only.inside(i)) continue;
    const Floats<V> z = load<V>(x + i);
    float squares = 0;
#pragma unroll
    for (int k = 0; k < V; ++k) squares += z.v[k] * z.v[k];
    sum += squares;
  }
  for (std::int64_t i = whole + thread; i < n; i += threads) {
    if (!only.inside(i)) continue;
    const double z = to_f32(x[i]);
    sum += z * z;
  }
  sum = row_reduce(sum, 0.0, parts, Sum());
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class Stream>
void enqueue(Stream& stream, const ops::SumSquares& op) {
  if (op.x.numel() == 0) return;
  const ops::ElementRange all{0, op.x.numel()};
  const ops::ElementRanges ranges = op.only.empty() ? ops::ElementRanges(&all, 1) : op.only;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    for_pieces(ranges, op.x.numel(), [&](std::int64_t at, std::int64_t n, const Borders& borders) {
      const T* x = pointer<T>(op.x) + at;
      const bool wide = aligned<V>(x) && whole_vectors(borders, V);
      Launch shape = flat_shape(n, wide ? V : 1);
      shape.grid_x = static_cast<unsigned>(std::min<std::int64_t>(shape.grid_x, kSquareBlocks));
      auto* partial = static_cast<double*>(stream.scratch(shape.grid_x * sizeof(double)));
      if (wide)
        stream.launch(op.name, shape, sum_squares<V, T>, x, n, borders, partial);
      else
        stream.launch(op.name, shape, sum_squares<1, T>, x, n, borders, partial);
      Launch one;
      one.block_x = kFlatThreads;
      stream.launch(op.name, one, add_squares<kFlatThreads>, partial, static_cast<std::int64_t>(shape.grid_x),
                    pointer<float>(op.sum));
    });
  });
}

}  // namespace mbench::cuda
