// Matrix products: by cuBLASLt (matmul_plans.cpp), but for those over no terms, which it does not take.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "engine/backend/cuda/cuda_ops.h"
#include "engine/backend/cuda/launch.h"
#include "engine/backend/cuda/matmul_plans.h"
#include "engine/ops/epilogue.h"

namespace mbench::cuda {
namespace {

// c = beta * c
template <class T>
__global__ void scale_kernel(T* c, std::int64_t rows, std::int64_t cols, std::int64_t ld,
                             std::int64_t batch_stride, std::int64_t batch, float beta) {
  const std::int64_t each = rows * cols;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < batch * each;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    T& x = c[i / each * batch_stride + i % each / cols * ld + i % cols];
    x = beta == 0 ? T(0.0f) : T(beta * static_cast<float>(x));
  }
}

template <class T>
void scale(const ops::Matmul& op, cudaStream_t stream) {
  Launch shape;
  shape.block_x = 256;
  shape.grid_x =
      static_cast<unsigned>(std::min<std::int64_t>(1024, (op.batch * op.c.rows * op.c.cols + 255) / 256));
  launch(ops::Matmul::name, shape, stream, scale_kernel<T>, op.c.data.as<T>() + op.c.offset, op.c.rows,
         op.c.cols, op.c.ld, op.c.batch_stride, op.batch, op.beta);
}

}  // namespace

void CudaOps::run(const ops::Matmul& op) {
  if (op.c.rows == 0 || op.c.cols == 0 || op.batch == 0) return;
  if (op.a.cols > 0) return matmuls_->run(op);
  if (op.has_epilogue()) {
    run(ops::product_before_epilogue(op));
    return ops::for_each_part_of_epilogue(op, [&](const auto& part) { run(part); });
  }
  switch (op.c.data.dtype()) {
    case DType::bf16:
      return scale<__nv_bfloat16>(op, stream_);
    case DType::f16:
      return scale<__half>(op, stream_);
    default:
      return scale<float>(op, stream_);
  }
}

}  // namespace mbench::cuda
