// A gate in columns of a wider tensor: a thread for each element.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/column_gate.h"

namespace mbench::cuda {

inline constexpr int kGateThreads = 256;

template <class T>
struct ColumnGateArguments {
  const T *x, *z, *dy;
  T *y, *dx, *dz;
  std::int64_t elements, n, width, first;
  bool silu;
};

template <bool Back, class T>
__global__ void __launch_bounds__(kGateThreads) column_gate(ColumnGateArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.elements) return;
  const std::int64_t gate = i / a.n * a.width + a.first + i % a.n;
  const float z = to_f32(a.z[gate]), open = 1.0f / (1.0f + expf(-z)), x = to_f32(a.x[i]), y = a.silu ? z * open : open;
  if constexpr (Back) {
    const float dy = to_f32(a.dy[i]);
    a.dz[gate] = from_f32<T>(dy * x * open * (a.silu ? 1.0f + z * (1.0f - open) : 1.0f - open));
    a.dx[i] = from_f32<T>(dy * y);
  } else {
    a.y[i] = from_f32<T>(x * y);
  }
}

template <class T, class Op>
ColumnGateArguments<T> column_gate_arguments(const Op& op) {
  ColumnGateArguments<T> a{};
  a.x = pointer<T>(op.x), a.z = pointer<T>(op.z);
  a.elements = op.x.numel(), a.n = op.x.shape()[3], a.width = op.z.shape()[3], a.first = op.first, a.silu = op.silu;
  return a;
}

inline Launch column_gate_shape(std::int64_t elements) {
  Launch shape;
  shape.block_x = kGateThreads;
  shape.grid_x = static_cast<unsigned>((elements + kGateThreads - 1) / kGateThreads);
  return shape;
}

template <class Stream>
void enqueue(Stream& stream, const ops::ColumnGate& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ColumnGateArguments<T> a = column_gate_arguments<T>(op);
    a.y = pointer<T>(op.y);
    stream.launch(op.name, column_gate_shape(a.elements), column_gate<false, T>, a);
  });
}

template <class Stream>
void enqueue(Stream& stream, const ops::ColumnGateGrad& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ColumnGateArguments<T> a = column_gate_arguments<T>(op);
    a.dy = pointer<T>(op.dy), a.dx = pointer<T>(op.dx), a.dz = pointer<T>(op.dz);
    stream.launch(op.name, column_gate_shape(a.elements), column_gate<true, T>, a);
  });
}

}  // namespace mbench::cuda
