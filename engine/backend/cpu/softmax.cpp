#include "engine/ops/softmax.h"

#include <omp.h>

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/softmax_rows.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Softmax& op) {
  const Shape& shape = op.scores.shape();
  const std::int64_t heads = shape[1], queries = shape[2], keys = shape[3];
  with_type(op.scores.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats(2 * omp_get_max_threads() * keys);
    parallel_rows(op.scores.shape().rows(), keys, [&](std::int64_t row) {
      float* own = scratch + 2 * omp_get_thread_num() * keys;
      const std::int64_t q = row % queries, b = row / queries / heads;
      std::int64_t first = 0, visible = op.causal ? std::min(keys, q + 1) : keys;
      if (op.bounds) {
        const std::int64_t* bounds = op.bounds.as<std::int64_t>();
        visible = std::min(visible, bounds[queries + q]), first = std::min(bounds[q], visible);
      }
      KeyMask mask;
      if (op.keep) mask.keep = op.keep.as<std::uint8_t>() + b * keys;
      if (op.mask) {
        const std::int64_t sample = op.mask.shape()[0] == 1 ? 0 : b;
        mask.hidden = op.mask.as<std::uint8_t>() + (sample * queries + q) * keys;
      }
      const float* scores = load(op.scores.as<T>() + row * keys, own, visible);
      float* probs = target(op.probs.as<T>() + row * keys, own + keys);
      softmax_row(scores + first, probs + first, visible - first, op.scale, mask.from(first));
      std::fill(probs, probs + first, 0.0f);
      std::fill(probs + visible, probs + keys, 0.0f);
      store(probs, op.probs.as<T>() + row * keys, keys);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::SoftmaxGrad& op) {
  const std::int64_t keys = op.probs.shape().cols(), queries = op.probs.shape()[-2];
  with_type(op.probs.dtype(), [&](auto type) {
    using T = decltype(type);
    float* scratch = cpu.scratch.floats(3 * omp_get_max_threads() * keys);
    parallel_rows(op.probs.shape().rows(), keys, [&](std::int64_t row) {
      float* own = scratch + 3 * omp_get_thread_num() * keys;
      const std::int64_t visible = op.causal ? std::min(keys, row % queries + 1) : keys;
      const float* dprobs = load(op.dprobs.as<T>() + row * keys, own, visible);
      const float* probs = load(op.probs.as<T>() + row * keys, own + keys, visible);
      float* dscores = target(op.dscores.as<T>() + row * keys, own + 2 * keys);
      const float dot = sum_of(visible, [=](std::int64_t k) { return probs[k] * dprobs[k]; });
#pragma omp simd
      for (std::int64_t k = 0; k < visible; ++k) dscores[k] = op.scale * probs[k] * (dprobs[k] - dot);
      std::fill(dscores + visible, dscores + keys, 0.0f);
      store(dscores, op.dscores.as<T>() + row * keys, keys);
    });
  });
}

}  // namespace mbench::cpu
