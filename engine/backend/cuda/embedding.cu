#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/embedding.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::Embedding& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::EmbeddingGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
