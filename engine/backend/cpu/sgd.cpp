#include "engine/ops/sgd.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/element_ranges.h"
#include "engine/backend/cpu/parallel.h"

namespace mbench::cpu {

template <>
void compute(CpuOps&, const ops::Sgd& op) {
  const float lr = op.lr, momentum = op.momentum, gs = op.grad_scale;
  with_type(op.grad.dtype(), [&](auto type) {
    using T = decltype(type);
    parallel_tiles(op.param.numel(), [&](std::int64_t begin, std::int64_t n) {
      float buffer[kTile];
      const float* grad = load(op.grad.as<T>() + begin, buffer, n);
      float *p = op.param.as<float>() + begin, *b = op.velocity.as<float>() + begin;
      for_parts(op.undecayed, begin, n, [&](std::int64_t from, std::int64_t to, bool spared) {
        const float decay = spared ? 0 : op.weight_decay;
#pragma omp simd
        for (std::int64_t i = from; i < to; ++i) {
          b[i] = momentum * b[i] + (gs * grad[i] + decay * p[i]);
          p[i] -= lr * b[i];
        }
      });
      if (op.model)
        with_type(op.model.dtype(),
                  [&](auto model_type) { from_floats(p, op.model.as<decltype(model_type)>() + begin, n); });
    });
  });
}

}  // namespace mbench::cpu
