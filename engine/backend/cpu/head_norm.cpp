#include "engine/ops/head_norm.h"

#include <omp.h>

#include <algorithm>

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// Row r of all matrices of a batch, one after the other.
template <class T>
T* row_of(const ops::Matrix& m, std::int64_t r) {
  return m.data.as<T>() + m.offset + r / m.rows * m.batch_stride + r % m.rows * m.ld;
}

// All heads' vectors as floats; `value` where there are none.
template <class T>
const float* vectors_or(const Tensor& vectors, float value, float* room, std::int64_t n) {
  if (!vectors) {
    std::fill(room, room + n, value);
    return room;
  }
  for (std::int64_t i = 0; i < n; i += kTile) {
    const std::int64_t count = std::min(kTile, n - i);
    float buffer[kTile];
    const float* from = load(static_cast<const T*>(vectors.as<T>()) + i, buffer, count);
    std::copy(from, from + count, room + i);
  }
  return room;
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::HeadNorm& op) {
  const std::int64_t rows = op.rows(), n = op.cols(), all = op.heads * n;
  with_type(op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    // Gammas and betas as floats, and a row of x and of y for each thread.
    float* scratch = cpu.scratch.floats(2 * all + 2 * omp_get_max_threads() * n);
    const float* gammas = vectors_or<T>(op.gamma, 1.0f, scratch, all);
    const float* betas = vectors_or<T>(op.beta, 0.0f, scratch + all, all);
    parallel_rows(rows, n, [&](std::int64_t r) {
      float* own = scratch + 2 * all + 2 * omp_get_thread_num() * n;
      const float *gamma = gammas + r % op.heads * n, *beta = betas + r % op.heads * n;
      const float* x = load(static_cast<const T*>(row_of<T>(op.x, r)), own, n);
      float* y = target(row_of<T>(op.y, r), own + n);
      const float mean = sum_of(n, [x](std::int64_t i) { return x[i]; }) / static_cast<float>(n);
      const float var =
          sum_of(n, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<float>(n);
      const float rstd = 1.0f / std::sqrt(var + op.eps);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
      store(y, row_of<T>(op.y, r), n);
      op.mean.as<float>()[r] = mean;
      op.rstd.as<float>()[r] = rstd;
    });
  });
}

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)). Chunks are of whole turns of the heads.
template <>
void compute(CpuOps& cpu, const ops::HeadNormGrad& op) {
  const std::int64_t n = op.cols(), all = op.heads * n;
  const RowChunks turns(op.rows() / op.heads);
  const float inv_n = n > 0 ? 1.0f / static_cast<float>(n) : 0;
  with_type(op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats((2 * turns.count + 1) * all + 3 * omp_get_max_threads() * n);
    float* partial = scratch;  // [chunks, 2, heads, n]: dgamma, dbeta
    float* after = scratch + 2 * turns.count * all;
    const float* gammas = vectors_or<T>(op.gamma, 1.0f, after, all);
#pragma omp parallel for schedule(static) if (op.rows() * n > kParallelFrom)
    for (std::int64_t chunk = 0; chunk < turns.count; ++chunk) {
      float* own = after + all + 3 * omp_get_thread_num() * n;
      float* sums = partial + 2 * chunk * all;
      std::fill(sums, sums + 2 * all, 0.0f);
      for (std::int64_t r = turns.begin(chunk) * op.heads; r < turns.end(chunk) * op.heads; ++r) {
        const float* x = load(static_cast<const T*>(row_of<T>(op.x, r)), own, n);
        const float* dy = load(static_cast<const T*>(row_of<T>(op.dy, r)), own + n, n);
        float* dx = target(row_of<T>(op.dx, r), own + 2 * n);
        const float mean = op.mean.as<float>()[r], rstd = op.rstd.as<float>()[r];
        const float* gamma = gammas + r % op.heads * n;
        float *dgamma = sums + r % op.heads * n, *dbeta = dgamma + all;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          dgamma[i] += dy[i] * ((x[i] - mean) * rstd);
          dbeta[i] += dy[i];
        }
        const float mean_g = sum_of(n, [=](std::int64_t i) { return dy[i] * gamma[i]; }) * inv_n;
        const float mean_gx =
            sum_of(n, [=](std::int64_t i) { return dy[i] * gamma[i] * ((x[i] - mean) * rstd); }) * inv_n;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i)
          dx[i] = rstd * (dy[i] * gamma[i] - mean_g - (x[i] - mean) * rstd * mean_gx);
        store(dx, row_of<T>(op.dx, r), n);
      }
    }
    if (op.dgamma) add_chunks(partial, turns.count, 2 * all, op.dgamma);
    if (op.dbeta) add_chunks(partial + all, turns.count, 2 * all, op.dbeta);
  });
}

}  // namespace mbench::cpu
