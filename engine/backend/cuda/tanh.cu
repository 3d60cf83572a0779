#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/tanh.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Tanh& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::TanhGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
