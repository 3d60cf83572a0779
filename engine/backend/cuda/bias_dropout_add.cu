#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/bias_dropout_add.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::BiasDropoutAdd& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
