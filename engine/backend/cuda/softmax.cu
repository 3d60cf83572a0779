#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/softmax.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Softmax& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::SoftmaxGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
