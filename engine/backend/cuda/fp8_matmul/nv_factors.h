// The factors of a GEMM of NVFP4 operands: cuBLASLt reads them on the device, where the largest values of its operands are.
#pragma once
#include <cuda_runtime_api.h>

namespace mbench::cuda {

// to[0] = amax_a amax_b / (6 * 448)^2, to[1] = beta.
void write_nv_factors(cudaStream_t stream, const float* amax_a, const float* amax_b, float beta, float* to);

}  // namespace mbench::cuda
