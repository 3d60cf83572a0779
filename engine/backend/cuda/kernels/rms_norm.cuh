// Root-mean-square normalisation: a block (or a warp) for each row, the row in registers. The gradient walks chunks of rows as layer
// normalisation's does. One pass reads dy and x; the chunks' sums of dgamma follow in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/norm_rows.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/rms_norm.h"

namespace mbench::cuda {

template <class T, int V, int Items>
__global__ void __launch_bounds__(kNormThreads)
    rms_norm(RowsAt<const T> x, const T* gamma, RowsAt<T> y, float* rstd_out, std::int64_t rows, std::int64_t n,
             float eps) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= rows) return;  // true for a whole warp, and only where one warp has a row
  const Row<T, V, Items> row(x(r), n);
  float squares = 0;
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    const Floats<V> z = row.at(item, col);
#pragma unroll
    for (int k = 0; k < V; ++k) squares += z.v[k] * z.v[k];
  });
  const float rstd = 1.0f / sqrtf(row_reduce(squares, 0.0f, parts, Sum()) / static_cast<float>(n) + eps);
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    Floats<V> z = row.at(item, col);
    const Floats<V> g = load_or<V>(gamma, col, 1.0f);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = z.v[k] * rstd * g.v[k];
    store(y(r) + col, z);
  });
  if (threadIdx.x == 0) rstd_out[r] = rstd;
}

template <class T>
struct RmsNormGradArguments {
  RowsAt<const T> dy, x, residual;  // residual may have no data
  RowsAt<T> dx;
  const T* gamma;
  const float* rstd;
  float* partial;  // [chunks, n]: dgamma
  std::int64_t rows, n, chunk_rows, chunks;
};

// One row as the gradient reads it.
template <class T, int V, int Items>
struct RmsNormGradRow {
  Row<T, V, Items> x, dy;
  float rstd;
  __device__ RmsNormGradRow(const RmsNormGradArguments<T>& a, std::int64_t r)
      : x(a.x(r), a.n), dy(a.dy(r), a.n), rstd(a.rstd[r]) {}
};

// With xhat = x rstd and g = dy gamma: dx = rstd (g - xhat mean(g xhat)). A block (or a warp) takes the rows of one chunk. Each thread
// keeps the sums of its columns in registers, or in `partial` if the rows do not fit. `Ahead`: as in layer_norm_grad.
template <class T, int V, int Items, bool Ahead>
__global__ void __launch_bounds__(Ahead ? kAheadThreads : kNormGradThreads) rms_norm_grad(RmsNormGradArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t chunk = own_row(), n = a.n;
  if (chunk >= a.chunks) return;
  const std::int64_t begin = chunk * a.chunk_rows;
  const std::int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
  float* dgamma = a.partial + chunk * n;
  const float inv_n = 1.0f / static_cast<float>(n);
  constexpr int kKept = Items > 0 ? Items : 1;
  Floats<V> sum_gamma[kKept];
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    sum_gamma[item] = filled<V>(0);
    if constexpr (Items == 0)
      for (int k = 0; k < V; ++k) dgamma[col + k] = 0;
  });
  RmsNormGradRow<T, V, Items> row(a, begin);
  for (std::int64_t r = begin; r < end; ++r) {
    const RmsNormGradRow<T, V, Items> next(a, Ahead && r + 1 < end ? r + 1 : r);
    if constexpr (!Ahead) row = next;
    const float rstd = row.rstd;
    float sum = 0;
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = row.x.at(item, col), ds = row.dy.at(item, col), gamma = load_or<V>(a.gamma, col, 1.0f);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float gemm = ds.v[k] * (xs.v[k] * rstd);
        sum += gemm * gamma.v[k];
        if constexpr (Items > 0)
          sum_gamma[item].v[k] += gemm;
        else
          dgamma[col + k] += gemm;
      }
    });
    const Row<T, V, Ahead ? Items : 0> residual(a.residual.data != nullptr ? a.residual(r) : a.x(r), n);
    const float mean = row_reduce(sum, 0.0f, parts, Sum()) * inv_n;
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = row.x.at(item, col), gamma = load_or<V>(a.gamma, col, 1.0f);
      Floats<V> d = row.dy.at(item, col);
#pragma unroll
      for (int k = 0; k < V; ++k) d.v[k] = rstd * (d.v[k] * gamma.v[k] - xs.v[k] * rstd * mean);
      if (a.residual.data != nullptr) {
        const Floats<V> more = residual.at(item, col);
#pragma unroll
        for (int k = 0; k < V; ++k) d.v[k] += more.v[k];
      }
      store(a.dx(r) + col, d);
    });
    if constexpr (Ahead) row = next;
  }
  if constexpr (Items > 0)
    for_row<V, Items>(n, [&](int item, std::int64_t col) { store(dgamma + col, sum_gamma[item]); });
}

template <class Stream>
void enqueue(Stream& stream, const ops::RmsNorm& op) {
  const std::int64_t rows = op.rows(), n = op.cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const auto x = rows_at<const T>(op.x);
    const auto y = rows_at<T>(op.y);
    const T* gamma = pointer<T>(op.gamma);
    float* rstd = pointer<float>(op.rstd);
    if (row_fits(n, V, kNormThreads) && aligned<V>(gamma) && x.template fits<V>() && y.template fits<V>())
      stream.launch(op.name, row_shape(rows, n, V, kNormThreads), rms_norm<T, V, kItems>, x, gamma, y, rstd, rows, n,
                    op.eps);
    else
      stream.launch(op.name, row_shape(rows, n, 1, kNormThreads), rms_norm<T, 1, 0>, x, gamma, y, rstd, rows, n,
                    op.eps);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::RmsNormGrad& op) {
  const std::int64_t rows = op.rows(), n = op.cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    RmsNormGradArguments<T> a{};
    a.dy = rows_at<const T>(op.dy), a.x = rows_at<const T>(op.x);
    a.residual = rows_at<const T>(op.residual), a.dx = rows_at<T>(op.dx);
    a.gamma = pointer<T>(op.gamma);
    a.rstd = pointer<float>(op.rstd);
    a.rows = rows, a.n = n;
    a.chunk_rows = norm_chunk_rows(rows, n);
    a.chunks = (rows + a.chunk_rows - 1) / a.chunk_rows;
    a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(a.chunks * n) * sizeof(float)));
    const bool wide = n % V == 0 && aligned<V>(a.gamma) && a.dy.template fits<V>() && a.x.template fits<V>() &&
                      a.residual.template fits<V>() && a.dx.template fits<V>();
    with_norm_gradient<V>(a.chunks, n, wide, [&](auto width, auto items, auto ahead, const Launch& shape) {
      stream.launch(op.name, shape, rms_norm_grad<T, width(), items(), ahead()>, a);
    });
    if (!op.dgamma) return;
    with_float(op.name, op.dgamma.dtype(), [&](auto gamma_type) {
      using TG = decltype(gamma_type);
      stream.launch(op.name, add_chunks_shape(n, false), add_chunks<TG, TG>, a.partial, a.chunks, n, n,
                    pointer<TG>(op.dgamma), static_cast<TG*>(nullptr));
    });
  });
}

}  // namespace mbench::cuda
