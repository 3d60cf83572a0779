#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/dropout.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Dropout& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::DropoutGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
