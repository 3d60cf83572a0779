#include "engine/ops/bias_dropout_add.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/dropout_rows.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::BiasDropoutAdd& op) {
  const bool drops = op.dropout.p > 0;
  if (drops) need_rank(op.name, op.map, op.x.shape());
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], bb[kTile], rb[kTile], fb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      const float* residual = load(op.residual.as<T>() + at, rb, n);
      float* y = target(op.y.as<T>() + at, yb);
      const float* bias = bb;
      if (op.bias)
        bias = load(op.bias.as<T>() + col, bb, n);
      else
        std::fill(bb, bb + n, 0.0f);
      if (drops)
        draw_factors(op.dropout, first_element(op.map, op.x.shape(), row) + static_cast<std::uint64_t>(col), n, fb);
      else
        std::fill(fb, fb + n, 1.0f);
      if (op.mask) {
        std::uint8_t* mask = op.mask.as<std::uint8_t>() + at;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) mask[i] = fb[i] != 0 ? 1 : 0;
      }
      if (op.scale != 1) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) fb[i] *= op.scale;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = residual[i] + (x[i] + bias[i]) * fb[i];
      store(y, op.y.as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
