// An RMS norm with a gate: a block for each norm. The gradient of gamma is summed over chunks of rows, and then over chunks.
#pragma once
#include "engine/backend/cuda/kernels/column_sum.h"
#include "engine/backend/cuda/kernels/row.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/gated_norm.h"

namespace mbench::cuda {

inline constexpr int kGatedThreads = 128;

template <class T>
struct GatedArguments {
  const T *x, *z, *gamma, *dy;
  T *y, *dx, *dz;
  float *rstd, *partial;
  std::int64_t rows, n, width, gates, groups, chunk;
  float eps;
  bool gate_first, shared;  // `shared`: one gamma for all norms

  __device__ float gate(float z) const { return z / (1.0f + expf(-z)); }
  // Column `col` of a row of x.
  __device__ float z_at(std::int64_t row, std::int64_t col) const { return to_f32(z[row * gates + col]); }
  __device__ float u(std::int64_t row, std::int64_t col) const {
    const float value = to_f32(x[row * n + col]);
    return gate_first ? value * gate(z_at(row, col)) : value;
  }
  // The gradient of u rstd gamma.
  __device__ float e(std::int64_t row, std::int64_t col) const {
    const float value = to_f32(dy[row * n + col]);
    return gate_first ? value : value * gate(z_at(row, col));
  }
  __device__ float gamma_at(std::int64_t row, std::int64_t col) const {
    return to_f32(gamma[shared ? col % width : row % groups * n + col]);
  }
};

template <class T>
__global__ void __launch_bounds__(kGatedThreads) gated_norm(GatedArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t norms = a.n / a.width, i = blockIdx.x, row = i / norms, first = i % norms * a.width;
  float squares = 0;
  for (std::int64_t k = threadIdx.x; k < a.width; k += blockDim.x) {
    const float u = a.u(row, first + k);
    squares += u * u;
  }
  const float rstd = 1.0f / sqrtf(row_reduce(squares, 0.0f, parts, Sum()) / static_cast<float>(a.width) + a.eps);
  for (std::int64_t k = threadIdx.x; k < a.width; k += blockDim.x) {
    const std::int64_t col = first + k;
    const float y = a.u(row, col) * rstd * a.gamma_at(row, col);
    a.y[row * a.n + col] = from_f32<T>(a.gate_first ? y : y * a.gate(a.z_at(row, col)));
  }
  if (threadIdx.x == 0) a.rstd[i] = rstd;
}

template <class T>
__global__ void __launch_bounds__(kGatedThreads) gated_norm_grad(GatedArguments<T> a) {
  __shared__ SharedArray<float, kWarp> parts;
  const std::int64_t norms = a.n / a.width, i = blockIdx.x, row = i / norms, first = i % norms * a.width;
  const float rstd = a.rstd[i];
  float sum = 0;
  for (std::int64_t k = threadIdx.x; k < a.width; k += blockDim.x)
    sum += a.e(row, first + k) * a.gamma_at(row, first + k) * a.u(row, first + k) * rstd;
  const float mean = row_reduce(sum, 0.0f, parts, Sum()) / static_cast<float>(a.width);
  for (std::int64_t k = threadIdx.x; k < a.width; k += blockDim.x) {
    const std::int64_t col = first + k;
    const float z = a.z_at(row, col), open = 1.0f / (1.0f + expf(-z)), slope = open * (1.0f + z * (1.0f - open));
    const float u = a.u(row, col), gamma = a.gamma_at(row, col), dy = to_f32(a.dy[row * a.n + col]);
    const float back = rstd * (a.e(row, col) * gamma - u * rstd * mean);
    a.dz[row * a.gates + col] =
        from_f32<T>(slope * (a.gate_first ? back * to_f32(a.x[row * a.n + col]) : dy * u * rstd * gamma));
    a.dx[row * a.n + col] = from_f32<T>(a.gate_first ? back * z * open : back);
  }
}

// [chunks][columns of gamma]. It runs before gated_norm_grad, which may write over dy.
template <class T>
__global__ void __launch_bounds__(kGatedThreads) gated_norm_sums(GatedArguments<T> a) {
  const std::int64_t cols = a.shared ? a.width : a.groups * a.n,
                     col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, part = blockIdx.y;
  if (col >= cols) return;
  const std::int64_t begin = part * a.chunk, end = begin + a.chunk < a.rows ? begin + a.chunk : a.rows,
                     norms = a.n / a.width;
  float sum = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    if (!a.shared && row % a.groups != col / a.n) continue;
    for (std::int64_t at = a.shared ? col : col % a.n; at < a.n; at += a.width) {
      sum += a.e(row, at) * a.u(row, at) * a.rstd[row * norms + at / a.width];
      if (!a.shared) break;
    }
  }
  a.partial[part * cols + col] = sum;
}

template <class T, class Op>
GatedArguments<T> gated_arguments(const Op& op) {
  GatedArguments<T> a{};
  a.x = pointer<T>(op.x), a.z = pointer<T>(op.z), a.gamma = pointer<T>(op.gamma), a.rstd = pointer<float>(op.rstd);
  a.n = op.x.shape()[3], a.rows = op.x.numel() / a.n, a.width = op.width;
  a.gates = op.z.shape()[3], a.groups = op.x.shape()[2];
  a.gate_first = op.gate_first, a.shared = op.gamma.numel() == op.width;
  return a;
}

template <class T>
Launch gated_launch(const GatedArguments<T>& a) {
  Launch shape;
  shape.block_x = static_cast<unsigned>(std::min<std::int64_t>(kGatedThreads, (a.width + kWarp - 1) / kWarp * kWarp));
  shape.grid_x = static_cast<unsigned>(a.rows * (a.n / a.width));
  return shape;
}

template <class Stream>
void enqueue(Stream& stream, const ops::GatedNorm& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    GatedArguments<T> a = gated_arguments<T>(op);
    a.y = pointer<T>(op.y), a.eps = op.eps;
    stream.launch(op.name, gated_launch(a), gated_norm<T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::GatedNormGrad& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    GatedArguments<T> a = gated_arguments<T>(op);
    a.dy = pointer<T>(op.dy), a.dx = pointer<T>(op.dx), a.dz = pointer<T>(op.dz);
    const std::int64_t cols = op.gamma.numel();
    a.chunk = std::max<std::int64_t>(16, (a.rows + 511) / 512);
    const std::int64_t chunks = (a.rows + a.chunk - 1) / a.chunk;
    if (op.dgamma) {
      a.partial = static_cast<float*>(stream.scratch(static_cast<std::size_t>(chunks * cols) * sizeof(float)));
      Launch sums;
      sums.block_x = kGatedThreads;
      sums.grid_x = static_cast<unsigned>((cols + kGatedThreads - 1) / kGatedThreads);
      sums.grid_y = static_cast<unsigned>(chunks);
      stream.launch(op.name, sums, gated_norm_sums<T>, a);
    }
    stream.launch(op.name, gated_launch(a), gated_norm_grad<T>, a);
    if (!op.dgamma) return;
    with_float(op.name, op.dgamma.dtype(), [&](auto gradient) {
      using G = decltype(gradient);
      stream.launch(op.name, add_chunks_shape(cols, false), add_chunks<G, G>, static_cast<const float*>(a.partial),
                    chunks, cols, cols, pointer<G>(op.dgamma), static_cast<G*>(nullptr));
    });
  });
}

}  // namespace mbench::cuda
