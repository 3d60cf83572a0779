#include "engine/ops/rms_norm.h"

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

// Gamma as floats; ones where there is none.
template <class T>
const float* gamma_or_ones(const Tensor& gamma, float* room, std::int64_t n) {
  if (gamma) return load(static_cast<const T*>(gamma.as<T>()), room, n);
  std::fill(room, room + n, 1.0f);
  return room;
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::RmsNorm& op) {
  const std::int64_t rows = op.rows(), n = op.cols();
  with_type(op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    // For 16-bit storage: gamma as floats, and a row of x and of y for each thread.
    float* scratch = cpu.scratch.floats((1 + 2 * omp_get_max_threads()) * n);
    const float* gamma = gamma_or_ones<T>(op.gamma, scratch, n);
    parallel_rows(rows, n, [&](std::int64_t r) {
      float* own = scratch + (1 + 2 * omp_get_thread_num()) * n;
      const float* x = load(row_of<T>(op.x, r), own, n);
      float* y = target(row_of<T>(op.y, r), own + n);
      const float squares = sum_of(n, [x](std::int64_t i) { return x[i] * x[i]; }) / static_cast<float>(n);
      const float rstd = 1.0f / std::sqrt(squares + op.eps);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * rstd * gamma[i];
      store(y, row_of<T>(op.y, r), n);
      op.rstd.as<float>()[r] = rstd;
    });
  });
}

// With xhat = x rstd and g = dy gamma: dx = rstd (g - xhat mean(g xhat)).
template <>
void compute(CpuOps& cpu, const ops::RmsNormGrad& op) {
  const std::int64_t n = op.cols();
  const RowChunks chunks(op.rows());
  const float inv_n = n > 0 ? 1.0f / static_cast<float>(n) : 0;
  with_type(op.x.data.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats((chunks.count + 1 + 4 * omp_get_max_threads()) * n);
    float* partial = scratch;  // [chunks, n]: dgamma
    float* after = scratch + chunks.count * n;
    const float* gamma = gamma_or_ones<T>(op.gamma, after, n);
#pragma omp parallel for schedule(static) if (op.rows() * n > kParallelFrom)
    for (std::int64_t chunk = 0; chunk < chunks.count; ++chunk) {
      float* own = after + (1 + 4 * omp_get_thread_num()) * n;
      float* dgamma = partial + chunk * n;
      std::fill(dgamma, dgamma + n, 0.0f);
      for (std::int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
        const float* x = load(row_of<T>(op.x, r), own, n);
        const float* dy = load(row_of<T>(op.dy, r), own + n, n);
        const float* residual = op.residual.data ? load(row_of<T>(op.residual, r), own + 2 * n, n) : nullptr;
        float* dx = target(row_of<T>(op.dx, r), own + 3 * n);
        const float rstd = op.rstd.as<float>()[r];
        float sums[kLanes] = {};
        const auto step = [&](std::int64_t i, std::int64_t lane) {
          const float gemm = dy[i] * (x[i] * rstd);
          dgamma[i] += gemm;
          sums[lane] += gemm * gamma[i];
        };
        std::int64_t i = 0;
        for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
          for (std::int64_t l = 0; l < kLanes; ++l) step(i + l, l);
        }
        for (std::int64_t l = 0; i + l < n; ++l) step(i + l, l);
        const float mean = sum_of(kLanes, [&](std::int64_t l) { return sums[l]; }) * inv_n;
        if (residual != nullptr) {
#pragma omp simd
          for (std::int64_t j = 0; j < n; ++j) dx[j] = rstd * (dy[j] * gamma[j] - x[j] * rstd * mean) + residual[j];
        } else {
#pragma omp simd
          for (std::int64_t j = 0; j < n; ++j) dx[j] = rstd * (dy[j] * gamma[j] - x[j] * rstd * mean);
        }
        store(dx, row_of<T>(op.dx, r), n);
      }
    }
    if (op.dgamma) add_chunks(partial, chunks.count, n, op.dgamma);
  });
}

}  // namespace mbench::cpu
