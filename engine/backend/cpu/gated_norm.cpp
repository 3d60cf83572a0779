#include "engine/ops/gated_norm.h"

#include <cmath>

#include "engine/backend/cpu/column_sum.h"
#include "engine/backend/cpu/convert.h"
#include "engine/backend/cpu/cpu_ops.h"
#include "engine/backend/cpu/parallel.h"
#include "engine/backend/cpu/vector_math.h"

namespace mbench::cpu {
namespace {

// Rows of x, each with several norms next to each other.
struct GatedSizes {
  std::int64_t rows, n, norms, width, gates, groups;
  bool shared;  // one gamma for all norms
  template <class Op>
  explicit GatedSizes(const Op& op)
      : rows(op.x.numel() / std::max<std::int64_t>(1, op.x.shape()[3])),
        n(op.x.shape()[3]),
        norms(n / op.width),
        width(op.width),
        gates(op.z.shape()[3]),
        groups(op.x.shape()[2]),
        shared(op.gamma.numel() == op.width) {}
  // Of norm `i` of a row: where its gamma begins.
  std::int64_t gamma_at(std::int64_t row, std::int64_t i) const { return shared ? 0 : row % groups * n + i * width; }
};

// A thread's buffers of one norm's columns.
struct GatedBuffers {
  float *x, *z, *dy, *gamma, *out, *more;
  GatedBuffers(float* all, std::int64_t width)
      : x(all),
        z(all + width),
        dy(all + 2 * width),
        gamma(all + 3 * width),
        out(all + 4 * width),
        more(all + 5 * width) {}
  static constexpr std::int64_t kCount = 6;
};

inline float gate_sigmoid(float z) {
  return 1.0f / (1.0f + exp_f32(-z));
}

template <class T>
void gated_row(const ops::GatedNorm& op, const GatedSizes& s, std::int64_t row, std::int64_t i, const GatedBuffers& b) {
  const std::int64_t at = row * s.n + i * s.width, w = s.width;
  const float* x = load(static_cast<const T*>(op.x.as<T>()) + at, b.x, w);
  const float* z = load(static_cast<const T*>(op.z.as<T>()) + row * s.gates + i * w, b.z, w);
  const float* gamma = load(static_cast<const T*>(op.gamma.as<T>()) + s.gamma_at(row, i), b.gamma, w);
  float *u = b.more, *gate = b.dy;
#pragma omp simd
  for (std::int64_t k = 0; k < w; ++k) {
    gate[k] = z[k] * gate_sigmoid(z[k]);
    u[k] = op.gate_first ? x[k] * gate[k] : x[k];
  }
  const float squares = sum_of(w, [=](std::int64_t k) { return u[k] * u[k]; });
  const float rstd = 1.0f / std::sqrt(squares / static_cast<float>(w) + op.eps);
  op.rstd.as<float>()[row * s.norms + i] = rstd;
  T* to = op.y.as<T>() + at;
  float* y = target(to, b.out);
  const bool first = op.gate_first;
#pragma omp simd
  for (std::int64_t k = 0; k < w; ++k) y[k] = u[k] * rstd * gamma[k] * (first ? 1.0f : gate[k]);
  store(y, to, w);
}

// `dgamma`: the chunk's sums, of all columns of gamma.
template <class T>
void gated_row_back(const ops::GatedNormGrad& op, const GatedSizes& s, std::int64_t row, std::int64_t i,
                    const GatedBuffers& b, float* dgamma) {
  const std::int64_t at = row * s.n + i * s.width, w = s.width, gamma_at = s.gamma_at(row, i);
  const float* x = load(static_cast<const T*>(op.x.as<T>()) + at, b.x, w);
  const float* z = load(static_cast<const T*>(op.z.as<T>()) + row * s.gates + i * w, b.z, w);
  const float* dy = load(static_cast<const T*>(op.dy.as<T>()) + at, b.dy, w);
  const float* gamma = load(static_cast<const T*>(op.gamma.as<T>()) + gamma_at, b.gamma, w);
  const float rstd = op.rstd.as<float>()[row * s.norms + i];
  const bool first = op.gate_first;
  float* sums = dgamma + gamma_at;
  float* d = b.more;  // of the normed row, times gamma
#pragma omp simd
  for (std::int64_t k = 0; k < w; ++k) {
    const float gate = z[k] * gate_sigmoid(z[k]), u = first ? x[k] * gate : x[k], e = first ? dy[k] : dy[k] * gate;
    sums[k] += e * u * rstd;
    d[k] = e * gamma[k];
  }
  const float mean = sum_of(w,
                            [=](std::int64_t k) {
                              const float u = first ? x[k] * z[k] * gate_sigmoid(z[k]) : x[k];
                              return d[k] * u * rstd;
                            }) /
                     static_cast<float>(w);
  T *dx_to = op.dx.as<T>() + at, *dz_to = op.dz.as<T>() + row * s.gates + i * w;
  float *dz = b.out, *du = b.more;
#pragma omp simd
  for (std::int64_t k = 0; k < w; ++k) {
    const float open = gate_sigmoid(z[k]), gate = z[k] * open, slope = open * (1.0f + z[k] * (1.0f - open));
    const float u = first ? x[k] * gate : x[k], back = rstd * (d[k] - u * rstd * mean);
    dz[k] = slope * (first ? back * x[k] : dy[k] * u * rstd * gamma[k]);
    du[k] = first ? back * gate : back;
  }
  from_floats(dz, dz_to, w);
  from_floats(du, dx_to, w);
}

}  // namespace

template <>
void compute(CpuOps& cpu, const ops::GatedNorm& op) {
  const GatedSizes s(op);
  const RowChunks chunks(s.rows);
  const std::int64_t each = GatedBuffers::kCount * s.width;
  float* scratch = cpu.scratch.floats(std::max<std::int64_t>(1, chunks.count * each));
  with_type(op.x.dtype(), [&](auto type) {
    parallel_rows(chunks.count, chunks.size * s.n, [&](std::int64_t c) {
      const GatedBuffers buffers(scratch + c * each, s.width);
      for (std::int64_t row = chunks.begin(c); row < chunks.end(c); ++row)
        for (std::int64_t i = 0; i < s.norms; ++i) gated_row<decltype(type)>(op, s, row, i, buffers);
    });
  });
}

template <>
void compute(CpuOps& cpu, const ops::GatedNormGrad& op) {
  const GatedSizes s(op);
  const RowChunks chunks(s.rows);
  const std::int64_t all = op.gamma.numel(), each = GatedBuffers::kCount * s.width + all;
  float* scratch = cpu.scratch.floats(std::max<std::int64_t>(1, chunks.count * each));
  float* sums = scratch + chunks.count * GatedBuffers::kCount * s.width;
  with_type(op.x.dtype(), [&](auto type) {
    parallel_rows(chunks.count, chunks.size * s.n, [&](std::int64_t c) {
      const GatedBuffers buffers(scratch + c * GatedBuffers::kCount * s.width, s.width);
      std::fill(sums + c * all, sums + (c + 1) * all, 0.0f);
      for (std::int64_t row = chunks.begin(c); row < chunks.end(c); ++row)
        for (std::int64_t i = 0; i < s.norms; ++i)
          gated_row_back<decltype(type)>(op, s, row, i, buffers, sums + c * all);
    });
  });
  if (op.dgamma) add_chunks(sums, chunks.count, all, op.dgamma);
}

}  // namespace mbench::cpu
