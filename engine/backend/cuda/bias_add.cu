#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/bias_add.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::BiasAdd& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::BiasGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
