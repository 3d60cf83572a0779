#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/bias_gelu.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::BiasGelu& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::BiasGeluGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
