#include "engine/ops/expert_bias.h"

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

float weight_of(const Tensor& weights, std::int64_t row) {
  return weights ? weights.as<float>()[row] : 1.0f;
}

// partial[chunk, column] = the sum over the chunk's rows, of those from `first` on, of their gradients times their weights.
template <class T>
void sum_chunks(const ops::ExpertBiasGrad& op, std::int64_t first, const RowChunks& chunks, float* partial) {
  const std::int64_t cols = op.dy.shape().cols(), tiles = (cols + kTile - 1) / kTile;
#pragma omp parallel for schedule(static) if (chunks.rows * cols > kParallelFrom)
  for (std::int64_t item = 0; item < chunks.count * tiles; ++item) {
    const std::int64_t chunk = item / tiles, col = item % tiles * kTile, n = std::min(kTile, cols - col);
    float sum[kTile] = {}, buffer[kTile];
    for (std::int64_t r = chunks.begin(chunk); r < chunks.end(chunk); ++r) {
      const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + (first + r) * cols + col, buffer, n);
      const float weight = weight_of(op.weights, first + r);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) sum[i] += weight * dy[i];
    }
    std::copy(sum, sum + n, partial + chunk * cols + col);
  }
}

template <class T>
void gradient_of_weights(const ops::ExpertBiasGrad& op, std::int64_t expert) {
  const std::int64_t cols = op.dy.shape().cols(), first = op.rows.begin(expert);
  parallel_rows(op.rows.count(expert), cols, [&](std::int64_t r) {
    float sum = 0;
    for (std::int64_t col = 0; col < cols; col += kTile) {
      const std::int64_t n = std::min(kTile, cols - col);
      float db[kTile], bb[kTile];
      const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + (first + r) * cols + col, db, n);
      const float* bias = load(static_cast<const T*>(op.bias.as<T>()) + expert * cols + col, bb, n);
      sum += sum_of(n, [=](std::int64_t i) { return dy[i] * bias[i]; });
    }
    op.dweights.as<float>()[first + r] = op.share * sum;
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::ExpertBias& op) {
  with_type(op.y.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.y.shape().cols();
    for (std::int64_t e = 0; e < op.bias.shape()[0]; ++e) {
      const std::int64_t first = op.rows.begin(e);
      parallel_row_tiles(op.rows.count(e), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
        float bb[kTile], yb[kTile], out[kTile];
        T* at = op.y.as<T>() + (first + row) * cols + col;
        const float weight = op.share * weight_of(op.weights, first + row);
        const float* bias = load(static_cast<const T*>(op.bias.as<T>()) + e * cols + col, bb, n);
        const float* was = load(static_cast<const T*>(at), yb, n);
        float* y = target(at, out);
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) y[i] = was[i] + weight * bias[i];
        store(y, at, n);
      });
    }
  });
}

template <>
void compute(CpuOps& cpu, const ops::ExpertBiasGrad& op) {
  const std::int64_t cols = op.dy.shape().cols();
  if (op.weights) std::fill_n(op.dweights.as<float>(), op.dweights.numel(), 0.0f);
  for (std::int64_t e = 0; e < op.dbias.shape()[0]; ++e) {
    if (op.rows.count(e) == 0) continue;
    const RowChunks chunks(op.rows.count(e));
    float* partial = cpu.scratch.floats(chunks.count * cols);
    with_type(op.dy.dtype(), [&](auto type) {
      using T = decltype(type);
      sum_chunks<T>(op, op.rows.begin(e), chunks, partial);
      if (op.weights) gradient_of_weights<T>(op, e);
    });
    add_chunks(partial, chunks.count, cols, op.dbias.slice(e, 1));
  }
}

}  // namespace mbench::cpu
