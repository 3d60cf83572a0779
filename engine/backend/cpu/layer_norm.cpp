#include "engine/ops/layer_norm.h"

#include <omp.h>

#include <algorithm>

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// A vector as floats; `value` n times where there is none.
template <class T>
const float* vector_or(const Tensor& vector, float value, float* room, std::int64_t n) {
  if (vector) return load(static_cast<const T*>(vector.as<T>()), room, n);
  std::fill(room, room + n, value);
  return room;
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::LayerNorm& op) {
  const std::int64_t rows = op.x.shape().rows(), n = op.x.shape().cols();
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    // For 16-bit storage: gamma and beta as floats, and a row of x and of y for each thread.
    float* scratch = cpu.scratch.floats((2 + 2 * omp_get_max_threads()) * n);
    const float* gamma = vector_or<T>(op.gamma, 1.0f, scratch, n);
    const float* beta = vector_or<T>(op.beta, 0.0f, scratch + n, n);
    parallel_rows(rows, n, [&](std::int64_t r) {
      float* own = scratch + (2 + 2 * omp_get_thread_num()) * n;
      const float* x = load(op.x.as<T>() + r * n, own, n);
      float* y = target(op.y.as<T>() + r * n, own + n);
      const float mean = sum_of(n, [x](std::int64_t i) { return x[i]; }) / static_cast<float>(n);
      const float var =
          sum_of(n, [x, mean](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<float>(n);
      const float rstd = 1.0f / std::sqrt(var + op.eps);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
      store(y, op.y.as<T>() + r * n, n);
      op.mean.as<float>()[r] = mean;
      op.rstd.as<float>()[r] = rstd;
    });
  });
}

// With xhat = (x - mean) rstd and g = dy gamma: dx = rstd (g - mean(g) - xhat mean(g xhat)).
template <>
void compute(CpuOps& cpu, const ops::LayerNormGrad& op) {
  const std::int64_t n = op.x.shape().cols();
  const RowChunks chunks(op.x.shape().rows());
  const float inv_n = n > 0 ? 1.0f / static_cast<float>(n) : 0;
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats((2 * chunks.count + 1 + 4 * omp_get_max_threads()) * n);
    float* partial = scratch;  // [chunks, 2, n]: dgamma, dbeta
    float* after = scratch + 2 * chunks.count * n;
    const float* gamma = vector_or<T>(op.gamma, 1.0f, after, n);
#pragma omp parallel for schedule(static) if (op.x.numel() > kParallelFrom)
    for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      float* own = after + (1 + 4 * omp_get_thread_num()) * n;
      float *dgamma = partial + 2 * chunk * n, *dbeta = dgamma + n;
      std::fill(dgamma, dgamma + 2 * n, 0.0f);
      for (std::int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
        const float* x = load(op.x.as<T>() + r * n, own, n);
        const float* dy = load(op.dy.as<T>() + r * n, own + n, n);
        const float* residual = op.residual ? load(op.residual.as<T>() + r * n, own + 2 * n, n) : nullptr;
        float* dx = target(op.dx.as<T>() + r * n, own + 3 * n);
        const float mean = op.mean.as<float>()[r], rstd = op.rstd.as<float>()[r];
        float sum_g[kLanes] = {}, sum_gx[kLanes] = {};
        const auto step = [&](std::int64_t i, std::int64_t lane) {
          const float xhat = (x[i] - mean) * rstd, g = dy[i] * gamma[i];
          dgamma[i] += dy[i] * xhat;
          dbeta[i] += dy[i];
          sum_g[lane] += g;
          sum_gx[lane] += g * xhat;
        };
        std::int64_t i = 0;
        for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
          for (std::int64_t l = 0; l < kLanes; ++l) step(i + l, l);
        }
        for (std::int64_t l = 0; i + l < n; ++l) step(i + l, l);
        const float mean_g = sum_of(kLanes, [&](std::int64_t l) { return sum_g[l]; }) * inv_n;
        const float mean_gx = sum_of(kLanes, [&](std::int64_t l) { return sum_gx[l]; }) * inv_n;
        if (residual != nullptr) {
#pragma omp simd
          for (std::int64_t j = 0; j < n; ++j)
            dx[j] = rstd * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * rstd * mean_gx) + residual[j];
        } else {
#pragma omp simd
          for (std::int64_t j = 0; j < n; ++j)
            dx[j] = rstd * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * rstd * mean_gx);
        }
        store(dx, op.dx.as<T>() + r * n, n);
      }
    }
    if (op.dgamma) add_chunks(partial, chunks.count, 2 * n, op.dgamma);
    if (op.dbeta) add_chunks(partial + n, chunks.count, 2 * n, op.dbeta);
  });
}

}  // namespace mbench::cpu
