#include "engine/backend/cuda/device/cuda_ops.h"
#include "engine/backend/cuda/kernels/attention_mask.cuh"

namespace mbench::cuda {

void CudaOps::run(const ops::AttentionMask& op) {
  enqueue(kernels_, op);
}

}  // namespace mbench::cuda
