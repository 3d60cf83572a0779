#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/layer_norm.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::LayerNorm& op) {
  enqueue(kernels_, op);
}
void CudaOps::run(const ops::LayerNormGrad& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
