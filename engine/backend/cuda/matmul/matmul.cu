// Matrix products: by cuBLASLt (matmul_plans.cpp), but for those over no terms, which it does not take.
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/matmul/matmul.cuh"
#include "engine/backend/cuda/matmul/matmul_plans.h"
#include "engine/ops/epilogue.h"

namespace mbench::cuda {

void CudaOps::run(const ops::Matmul& op) {
  if (op.c.rows == 0 || op.c.cols == 0 || op.batch == 0) return;
  if (op.a.cols > 0) return matmuls_->run(op);
  if (op.has_epilogue()) {
    run(ops::product_before_epilogue(op));
    return ops::for_each_part_of_epilogue(op, [&](const auto& part) { run(part); });
  }
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
