#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/adam.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Adam& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
