#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/sum_squares.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::SumSquares& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
