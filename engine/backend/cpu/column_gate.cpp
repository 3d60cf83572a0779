#include "engine/ops/column_gate.h"

#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// f(element of x, element of z, count) for tiles of the rows.
template <class F>
void for_gate_tiles(const Tensor& x, const Tensor& z, std::int64_t first, F&& f) {
  const std::int64_t n = x.shape()[3], width = z.shape()[3];
  if (x.numel() == 0) return;
  parallel_row_tiles(x.numel() / n, n, [&](std::int64_t row, std::int64_t col, std::int64_t count) {
    f(row * n + col, row * width + first + col, count);
  });
}

}  // namespace

template <>
void compute(CpuOps&, const ops::ColumnGate& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    for_gate_tiles(op.x, op.z, op.first, [&](std::int64_t at, std::int64_t gate, std::int64_t n) {
      float xb[kTile], zb[kTile], yb[kTile];
      const float *x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, n),
                  *z = load(static_cast<const T*>(op.z.as<T>()) + gate, zb, n);
      float* y = target(op.y.as<T>() + at, yb);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * (op.silu ? z[i] : 1.0f) / (1.0f + exp_f32(-z[i]));
      store(y, op.y.as<T>() + at, n);
    });
  });
}

template <>
void compute(CpuOps&, const ops::ColumnGateGrad& op) {
  with_type(op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    for_gate_tiles(op.x, op.z, op.first, [&](std::int64_t at, std::int64_t gate, std::int64_t n) {
      float xb[kTile], zb[kTile], db[kTile], dx[kTile], dz[kTile];
      const float *x = load(static_cast<const T*>(op.x.as<T>()) + at, xb, n),
                  *z = load(static_cast<const T*>(op.z.as<T>()) + gate, zb, n),
                  *dy = load(static_cast<const T*>(op.dy.as<T>()) + at, db, n);
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) {
        const float open = 1.0f / (1.0f + exp_f32(-z[i]));
        dx[i] = dy[i] * open * (op.silu ? z[i] : 1.0f);
        dz[i] = dy[i] * x[i] * open * (op.silu ? 1.0f + z[i] * (1.0f - open) : 1.0f - open);
      }
      from_floats(dx, op.dx.as<T>() + at, n);
      from_floats(dz, op.dz.as<T>() + gate, n);
    });
  });
}

}  // namespace mbench::cpu
