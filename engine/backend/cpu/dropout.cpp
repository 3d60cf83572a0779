#include "engine/ops/dropout.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/dropout_rows.h"

namespace mbench::cpu {

template <>
void compute(CpuOps& cpu, const ops::Dropout& op) {
  const bool drops = op.dropout.p > 0;
  if (drops) need_rank(op.name, op.map, op.x.shape());
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.x.shape().cols();
    parallel_row_tiles(op.x.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], fb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* x = load(op.x.as<T>() + at, xb, n);
      float* y = target(op.y.as<T>() + at, yb);
      if (drops)
        draw_factors(op.dropout, first_element(op.map, op.x.shape(), row) + static_cast<std::uint64_t>(col), n, fb);
      else
        std::fill(fb, fb + n, 1.0f);
      if (op.mask) {
        std::uint8_t* mask = op.mask.as<std::uint8_t>() + at;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) mask[i] = fb[i] != 0 ? 1 : 0;
      }
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * fb[i];
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::DropoutGrad& op) {
  const bool drops = op.dropout.p > 0;
  if (drops && !op.mask) need_rank(op.name, op.map, op.dy.shape());
  const float scale = drops ? keep_scale(op.dropout) : 1.0f;
  with_type(op.dy.dtype(), [&](auto type) {
    using T = decltype(type);
    const std::int64_t cols = op.dy.shape().cols();
    parallel_row_tiles(op.dy.shape().rows(), cols, [&](std::int64_t row, std::int64_t col, std::int64_t n) {
      float xb[kTile], fb[kTile], yb[kTile];
      const std::int64_t at = row * cols + col;
      const float* dy = load(op.dy.as<T>() + at, xb, n);
      float* dx = target(op.dx.as<T>() + at, yb);
      if (op.mask) {
        const std::uint8_t* mask = op.mask.as<std::uint8_t>() + at;
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) fb[i] = mask[i] != 0 ? scale : 0.0f;
      } else if (drops) {
        draw_factors(op.dropout, first_element(op.map, op.dy.shape(), row) + static_cast<std::uint64_t>(col), n, fb);
      } else {
        std::fill(fb, fb + n, 1.0f);
      }
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) dx[i] = dy[i] * fb[i];
      store(dx, op.dx.as<T>() + at, n);
    });
  });
}

}  // namespace mbench::cpu
