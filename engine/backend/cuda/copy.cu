#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/copy.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Copy& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::Fill& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
