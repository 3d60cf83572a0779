// FP8 products, by cuBLASLt.
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/fp8_matmul/fp8_plans.h"

namespace mbench::cuda {

template <>
void compute(CudaOps& gpu, const ops::Fp8Matmul& op) {
  if (op.m() > 0 && op.n() > 0) gpu.fp8_matmuls->run(op);
}

}  // namespace mbench::cuda
