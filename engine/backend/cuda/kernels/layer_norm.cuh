// Layer normalisation: a block (or a warp) for each row, the row in registers. The gradient walks chunks of rows. So one pass over dy and x
// gives dx and partial sums of dgamma and dbeta. These are then added in a fixed order.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/norm_rows.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/layer_norm.h"

namespace mbench::cuda {

template <class T, int V, int Items>
__global__ void __launch_bounds__(kNormThreads)
    layer_norm(const T* x, const T* gamma, const T* beta, T* y, float* mean_out, float* rstd_out, std::int64_t rows,
               std::int64_t n, float eps) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t r = own_row();
  if (r >= rows) return;  // true for a whole warp, and only where one warp has a row
  const Row<T, V, Items> row(x + r * n, n);
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
  const float rstd = 1.0f / sqrtf(row_reduce(squares, 0.0f, parts, Sum()) / static_cast<float>(n) + eps);
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    Floats<V> z = row.at(item, col);
    const Floats<V> g = load_or<V>(gamma, col, 1.0f), b = load_or<V>(beta, col, 0.0f);
#pragma unroll
    for (int k = 0; k < V; ++k) z.v[k] = (z.v[k] - mean) * rstd * g.v[k] + b.v[k];
    store(y + r * n + col, z);
  });
  if (threadIdx.x == 0) {
    mean_out[r] = mean;
    rstd_out[r] = rstd;
  }
}

template <class T>
struct LayerNormGradArguments {
  const T *dy, *x, *gamma, *residual;  // gamma and residual may be null
  const float *mean, *rstd;
  T* dx;
  float* partial;  // [chunks, 2, n]: dgamma, dbeta
  std::int64_t rows, n, chunk_rows, chunks;
};

// One row as the gradient reads it.
template <class T, int V, int Items>
struct LayerNormGradRow {
  Row<T, V, Items> x, dy;
  float mean, rstd;
  __device__ LayerNormGradRow(const LayerNormGradArguments<T>& a, std::int64_t r)
      : x(a.x + r * a.n, a.n), dy(a.dy + r * a.n, a.n), mean(a.mean[r]), rstd(a.rstd[r]) {}
};

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)). A block (or a warp) takes the rows of one
// chunk, one after the other. Each thread keeps the sums of its columns in registers, or in its own places of `partial` if the rows do not
// fit. `Ahead`: the next row is loaded before this one is reduced, so that memory is busy while the threads wait for each other.
template <class T, int V, int Items, bool Ahead>
__global__ void __launch_bounds__(Ahead ? kAheadThreads : kNormGradThreads)
    layer_norm_grad(LayerNormGradArguments<T> a) {
  __shared__ SharedArray<Pair, kWarp> parts;
  const std::int64_t chunk = own_row(), n = a.n;
  if (chunk >= a.chunks) return;
  const std::int64_t begin = chunk * a.chunk_rows;
  const std::int64_t end = begin + a.chunk_rows < a.rows ? begin + a.chunk_rows : a.rows;
  float *dgamma = a.partial + 2 * chunk * n, *dbeta = dgamma + n;
  const float inv_n = 1.0f / static_cast<float>(n);
  constexpr int kKept = Items > 0 ? Items : 1;
  Floats<V> sum_gamma[kKept], sum_beta[kKept];
  for_row<V, Items>(n, [&](int item, std::int64_t col) {
    sum_gamma[item] = sum_beta[item] = filled<V>(0);
    if constexpr (Items == 0)
      for (int k = 0; k < V; ++k) dgamma[col + k] = dbeta[col + k] = 0;
  });
  LayerNormGradRow<T, V, Items> row(a, begin);
  for (std::int64_t r = begin; r < end; ++r) {
    const LayerNormGradRow<T, V, Items> next(a, Ahead && r + 1 < end ? r + 1 : r);
    if constexpr (!Ahead) row = next;
    const float mean = row.mean, rstd = row.rstd;
    Pair sums{0, 0};
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = row.x.at(item, col), ds = row.dy.at(item, col), gamma = load_or<V>(a.gamma, col, 1.0f);
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
    const Row<T, V, Ahead ? Items : 0> residual(a.residual != nullptr ? a.residual + r * n : a.x + r * n, n);
    sums = row_reduce(sums, Pair{0, 0}, parts, Sum());
    const float mean_g = sums.a * inv_n, mean_gx = sums.b * inv_n;
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      const Floats<V> xs = row.x.at(item, col), gamma = load_or<V>(a.gamma, col, 1.0f);
      Floats<V> d = row.dy.at(item, col);
#pragma unroll
      for (int k = 0; k < V; ++k) d.v[k] = rstd * (d.v[k] * gamma.v[k] - mean_g - (xs.v[k] - mean) * rstd * mean_gx);
      if (a.residual != nullptr) {
        const Floats<V> more = residual.at(item, col);
#pragma unroll
        for (int k = 0; k < V; ++k) d.v[k] += more.v[k];
      }
      store(a.dx + r * n + col, d);
    });
    if constexpr (Ahead) row = next;
  }
  if constexpr (Items > 0)
    for_row<V, Items>(n, [&](int item, std::int64_t col) {
      store(dgamma + col, sum_gamma[item]);
      store(dbeta + col, sum_beta[item]);
    });
}

template <class Stream>
void enqueue(Stream& stream, const ops::LayerNorm& op) {
  const std::int64_t rows = op.x.shape().rows(), n = op.x.shape().cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    const T *x = pointer<T>(op.x), *gamma = pointer<T>(op.gamma), *beta = pointer<T>(op.beta);
    T* y = pointer<T>(op.y);
    float *mean = pointer<float>(op.mean), *rstd = pointer<float>(op.rstd);
    if (row_fits(n, V, kNormThreads) && aligned<V>(x, gamma, beta, y))
      stream.launch(op.name, row_shape(rows, n, V, kNormThreads), layer_norm<T, V, kItems>, x, gamma, beta, y, mean,
                    rstd, rows, n, op.eps);
    else
      stream.launch(op.name, row_shape(rows, n, 1, kNormThreads), layer_norm<T, 1, 0>, x, gamma, beta, y, mean, rstd,
                    rows, n, op.eps);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::LayerNormGrad& op) {
  const std::int64_t rows = op.x.shape().rows(), n = op.x.shape().cols();
  if (rows == 0 || n == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    constexpr int V = width_of<T>();
    LayerNormGradArguments<T> a{};
    a.dy = pointer<T>(op.dy), a.x = pointer<T>(op.x), a.gamma = pointer<T>(op.gamma);
    a.residual = pointer<T>(op.residual), a.dx = pointer<T>(op.dx);
    a.mean = pointer<float>(op.mean), a.rstd = pointer<float>(op.rstd);
    a.rows = rows, a.n = n;
    a.chunk_rows = norm_chunk_rows(rows, n);
    a.chunks = (rows + a.chunk_rows - 1) / a.chunk_rows;
    a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(2 * a.chunks * n) * sizeof(float)));
    const bool wide = n % V == 0 && aligned<V>(a.dy, a.x, a.gamma, a.residual, a.dx);
    with_norm_gradient<V>(a.chunks, n, wide, [&](auto width, auto items, auto ahead, const Launch& shape) {
      stream.launch(op.name, shape, layer_norm_grad<T, width(), items(), ahead()>, a);
    });
    if (!op.dgamma) return;
    with_float(op.name, op.dgamma.dtype(), [&](auto gamma_type) {
      with_float(op.name, op.dbeta ? op.dbeta.dtype() : op.dgamma.dtype(), [&](auto beta_type) {
        using TG = decltype(gamma_type);
        using TB = decltype(beta_type);
        stream.launch(op.name, add_chunks_shape(n, static_cast<bool>(op.dbeta)), add_chunks<TG, TB>, a.partial,
                      a.chunks, 2 * n, n, pointer<TG>(op.dgamma), pointer<TB>(op.dbeta));
      });
    });
  });
}

}  // namespace mbench::cuda
