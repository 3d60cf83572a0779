#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/add.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Add& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
