// Matrix products: by cuBLASLt (matmul_plans.cpp), but for those over no terms, which it does not take.
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/matmul/matmul.cuh"
#include "engine/backend/cuda/matmul/matmul_plans.h"
#include "engine/ops/epilogue.h"

namespace mbench::cuda {

template <>
void compute(CudaOps& gpu, const ops::Matmul& op) {
  if (op.c.rows == 0 || op.c.cols == 0 || op.batch == 0) return;
  if (op.a.cols > 0) return gpu.matmuls->run(op);
  if (!op.has_epilogue()) return enqueue(gpu.kernels, op);
  enqueue(gpu.kernels, ops::gemm_before_epilogue(op));
  ops::for_each_part_of_epilogue(op, [&](const auto& part) { compute(gpu, part); });
}

}  // namespace mbench::cuda
