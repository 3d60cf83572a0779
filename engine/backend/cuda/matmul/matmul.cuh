// A GEMM over no terms (k = 0), which cuBLASLt does not take: c = beta * c.
#pragma once
#include "engine/backend/cuda/kernels/each.h"
#include "engine/backend/cuda/kernels/types.h"
#include "engine/ops/matmul.h"

namespace mbench::cuda {

// c: [batch, rows, cols] of strides batch_stride, ld, 1. Where beta is 0, c is not read.
template <class T>
__global__ void __launch_bounds__(kFlatThreads)
    scale_matrices(T* c, std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t batch_stride,
                   std::int64_t batch, float beta) {
  const std::int64_t each = rows * cols;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = thread; i < batch * each; i += threads) {
    T& x = c[i / each * batch_stride + i % each / cols * ld + i % cols];
    x = from_f32<T>(beta == 0 ? 0.0f : beta * to_f32(x));
  }
}

template <class Stream>
void enqueue(Stream& stream, const ops::Matmul& op) {
  with_float(op.name, op.c.data.dtype(), [&](auto type) {
    using T = decltype(type);
    stream.launch(op.name, flat_shape(op.batch * op.c.rows * op.c.cols, 1), scale_matrices<T>,
                  pointer<T>(op.c.data) + op.c.offset, op.c.rows, op.c.cols, op.c.ld, op.c.batch_stride, op.batch,
                  op.beta);
  });
}

}  // namespace mbench::cuda
