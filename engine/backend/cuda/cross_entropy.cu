#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/cross_entropy.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::RowMax& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::ExpSum& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::CrossEntropyLoss& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::CrossEntropyGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
