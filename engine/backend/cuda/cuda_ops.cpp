#include "engine/backend/cuda/cuda_ops.h"

#include "engine/backend/cuda/matmul_plans.h"

namespace mbench::cuda {

CudaOps::CudaOps(cudaStream_t stream) : stream_(stream), matmuls_(std::make_unique<MatmulPlans>(stream)) {}

CudaOps::~CudaOps() = default;

}  // namespace mbench::cuda
