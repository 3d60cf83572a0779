// The products of the experts, one after the other, by cuBLASLt.
#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/grouped_matmul/grouped_matmul.cuh"
#include "engine/backend/cuda/matmul/matmul_plans.h"

namespace mbench::cuda {

template <>
void compute(CudaOps& gpu, const ops::GroupedMatmul& op) {
  enqueue(gpu.kernels, op);
  const auto what =
      op.gemm == ops::GroupedMatmul::Gemm::weight_gradient ? MatmulPlans::Varying::terms : MatmulPlans::Varying::rows;
  for (std::int64_t e = 0; e < op.experts(); ++e) {
    const ops::Matmul gemm = op.of(e);
    if (op.offsets[e + 1] > op.offsets[e] && gemm.c.cols > 0) gpu.matmuls->run_varying(gemm, what);
  }
}

}  // namespace mbench::cuda
