// y = x times a factor for each run of columns: a thread for each element.
#pragma once
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/scale_columns.h"

namespace mbench::cuda {

inline constexpr int kScaleColumnsThreads = 256;

template <class T>
struct ScaleColumnsArguments {
  const T* x;
  T* y;
  std::int64_t elements, width;
  std::int64_t ends[ops::ColumnFactors::kRuns];
  float factors[ops::ColumnFactors::kRuns];
};

template <class T>
__global__ void __launch_bounds__(kScaleColumnsThreads) scale_columns(ScaleColumnsArguments<T> a) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.elements) return;
  const std::int64_t column = i % a.width;
  constexpr int last = static_cast<int>(ops::ColumnFactors::kRuns) - 1;
  float factor = a.factors[last];
#pragma unroll
  for (int run = last - 1; run >= 0; --run)
    if (column < a.ends[run]) factor = a.factors[run];
  a.y[i] = from_f32<T>(to_f32(a.x[i]) * factor);
}

template <class Stream>
void enqueue(Stream& stream, const ops::ScaleColumns& op) {
  if (op.x.numel() == 0) return;
  with_float(op.name, op.x.dtype(), [&](auto type) {
    using T = decltype(type);
    ScaleColumnsArguments<T> a{};
    a.x = pointer<T>(op.x), a.y = pointer<T>(op.y);
    a.elements = op.x.numel(), a.width = op.columns.width();
    for (std::size_t i = 0; i < ops::ColumnFactors::kRuns; ++i)
      a.ends[i] = op.columns.ends[i], a.factors[i] = op.columns.factors[i];
    Launch shape;
    shape.block_x = kScaleColumnsThreads;
    shape.grid_x = static_cast<unsigned>((a.elements + kScaleColumnsThreads - 1) / kScaleColumnsThreads);
    stream.launch(op.name, shape, scale_columns<T>, a);
  });
}

}  // namespace mbench::cuda
