// Layer normalisation of heads: a block (or a warp) for each row. The gradient walks, for each head, chunks of the rows of that head. Their
// sums of dgamma and dbeta are then added in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/norm_rows.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/head_norm.h"

namespace mbench::cuda {

template <class T>
struct HeadNormArguments {
  RowsAt<const T> x;
  RowsAt<T> y;
  const T *gamma, *beta;  // of each head, or null
  float *mean, *rstd;
  std::int64_t rows, n, heads;
  float eps;
};

template <class T, int V, int Items>
__global__ void __launch_bounds__(kNormThreads) head_norm(HeadNormArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row(), n = a.n;
  if (r >= a.rows) return;  // true for a whole warp, and only where one warp has a row
  const Row<T, V, Items> row(a.x(r), n);
  float sum = 0;
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    const Floats<V> z = row.at(item, col);
#pragma unroll
    for (int k = 0; k < V; ++k) sum += z.v[k];
  });
  const float mean = row_reduce(sum, 0.0f, parts, Sum()) / static_cast<float>(n);
  float squares = 0;
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    const Floats<V> z = row.at(item, col);
#pragma unroll
    for (int k = 0; k < V; ++k) squares += (z.v[k] - mean) * (z.v[k] - mean);
  });
  const float rstd = 1.0f / sqrtf(row_reduce(squares, 0.0f, parts, Sum()) / static_cast<float>(n) + a.eps);
  const std::int64_t first = r % a.heads * n;
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    Floats<V> z = row.at(item, col);
    const Floats<V> g = load_or<V>(a.gamma, first + col, 1.0f), b = load_or<V>(a.beta, first + col, 0.0f);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = (z.v[k] - mean) * rstd * g.v[k] + b.v[k];
    store(a.y(r) + col, z);
  });
  if (threadIdx.x == 0) {
    a.mean[r] = mean;
    a.rstd[r] = rstd;
  }
}

template <class T>
struct HeadNormGradArguments {
  RowsAt<const T> dy, x;
  RowsAt<T> dx;
  const T* gamma;  // of each head, or null
  const float *mean, *rstd;
  float* partial;  // [chunks, 2, heads, n]: dgamma, dbeta
  std::int64_t turns, n, heads, chunk_turns, chunks;
};

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)). A block (or a warp) takes one head's rows of one
// chunk: each turn of the heads has one. Each thread keeps the sums of its columns in registers, or in its own places of `partial` if the
// rows do not fit.
template <class T, int V, int Items>
__global__ void __launch_bounds__(kNormGradThreads) head_norm_grad(HeadNormGradArguments<T> a) {
  __shared__ SharedArray<Pair, kWarp> parts;
  const std::int64_t part = own_row(), n = a.n;
  if (part >= a.chunks * a.heads) return;
  const std::int64_t chunk = part / a.heads, head = part % a.heads;
  const std::int64_t begin = chunk * a.chunk_turns;
  const std::int64_t end = begin + a.chunk_turns < a.turns ? begin + a.chunk_turns : a.turns;
  float *dgamma = a.partial + (2 * chunk * a.heads + head) * n, *dbeta = dgamma + a.heads * n;
  const float inv_n = 1.0f / static_cast<float>(n);
  constexpr int kKept = Items > 0 ? Items : 1;
  Floats<V> sum_gamma[kKept], sum_beta[kKept];
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    sum_gamma[item] = sum_beta[item] = filled<V>(0);
    if constexpr (Items == 0)
      for (int k = 0; k < V; ++k) dgamma[col + k] = dbeta[col + k] = 0;
  });
  for (std::int64_t turn = begin; turn < end; ++turn) {
    const std::int64_t r = turn * a.heads + head;
    const Row<T, V, Items> x(a.x(r), n), dy(a.dy(r), n);
    const float mean = a.mean[r], rstd = a.rstd[r];
    Pair sums{0, 0};
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = x.at(item, col), ds = dy.at(item, col), gamma = load_or<V>(a.gamma, head * n + col, 1.0f);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        const float xhat = (xs.v[k] - mean) * rstd, g = ds.v[k] * gamma.v[k];
        sums.a += g;
        sums.b += g * xhat;
        if constexpr (Items > 0) {
          sum_gamma[item].v[k] += ds.v[k] * xhat;
          sum_beta[item].v[k] += ds.v[k];
        } else {
          dgamma[col + k] += ds.v[k] * xhat;
          dbeta[col + k] += ds.v[k];
        }
      }
    });
    sums = row_reduce(sums, Pair{0, 0}, parts, Sum());
    const float mean_g = sums.a * inv_n, mean_gx = sums.b * inv_n;
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = x.at(item, col), gamma = load_or<V>(a.gamma, head * n + col, 1.0f);
      Floats<V> d = dy.at(item, col);
#pragma unroll
      for (int k = 0; k < V; ++k) d.v[k] = rstd * (d.v[k] * gamma.v[k] - mean_g - (xs.v[k] - mean) * rstd * mean_gx);
      store(a.dx(r) + col, d);
    });
  }
  if constexpr (Items > 0)
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      store(dgamma + col, sum_gamma[item]);
      store(dbeta + col, sum_beta[item]);
    });
}

template <class Stream>
void enqueue(Stream& stream, const ops::HeadNorm& op) {
  const std::int64_t rows = op.rows(), n = op.cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const HeadNormArguments<T> a{rows_at<const T>(op.x),
                                 rows_at<T>(op.y),
                                 pointer<T>(op.gamma),
                                 pointer<T>(op.beta),
                                 pointer<float>(op.mean),
                                 pointer<float>(op.rstd),
                                 rows,
                                 n,
                                 op.heads,
                                 op.eps};
    if (row_fits(n, V, kNormThreads) && aligned<V>(a.gamma, a.beta) && a.x.template fits<V>() && a.y.template fits<V>())
      stream.launch(op.name, row_shape(rows, n, V, kNormThreads), head_norm<T, V, kItems>, a);
    else
      stream.launch(op.name, row_shape(rows, n, 1, kNormThreads), head_norm<T, 1, 0>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::HeadNormGrad& op) {
  const std::int64_t rows = op.rows(), n = op.cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    HeadNormGradArguments<T> a{};
    a.dy = rows_at<const T>(op.dy), a.x = rows_at<const T>(op.x), a.dx = rows_at<T>(op.dx);
    a.gamma = pointer<T>(op.gamma);
    a.mean = pointer<float>(op.mean), a.rstd = pointer<float>(op.rstd);
    a.turns = rows / op.heads, a.n = n, a.heads = op.heads;
    a.chunk_turns = norm_chunk_rows(a.turns, n * op.heads);
    a.chunks = (a.turns + a.chunk_turns - 1) / a.chunk_turns;
    const std::int64_t all = op.heads * n;
    a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(2 * a.chunks * all) * sizeof(float)));
    if (row_fits(n, V, kNormGradThreads) && aligned<V>(a.gamma) && a.dy.template fits<V>() && a.x.template fits<V>() &&
        a.dx.template fits<V>())
      stream.launch(op.name, row_shape(a.chunks * op.heads, n, V, kNormGradThreads), head_norm_grad<T, V, kItems>, a);
    else
      stream.launch(op.name, row_shape(a.chunks * op.heads, n, 1, kNormGradThreads), head_norm_grad<T, 1, 0>, a);
    if (!op.dgamma) return;
    with_float(op.name, op.dgamma.dtype(), [&](auto gamma_type) {
      with_float(op.name, op.dbeta ? op.dbeta.dtype() : op.dgamma.dtype(), [&](auto beta_type) {
        using TG = decltype(gamma_type);
        using TB = decltype(beta_type);
        stream.launch(op.name, add_chunks_shape(all, static_cast<bool>(op.dbeta)), add_chunks<TG, TB>, a.partial,
                      a.chunks, 2 * all, all, pointer<TG>(op.dgamma), pointer<TB>(op.dbeta));
      });
    });
  });
}

}  // namespace mbench::cuda
