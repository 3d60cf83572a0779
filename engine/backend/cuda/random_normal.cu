#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/random_normal.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::RandomNormal& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
