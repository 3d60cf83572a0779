// Factors that cuBLASLt reads on the device: those of a GEMM of NVFP4 operands, whose largest values are there, and scales of tensors.
#pragma once
#include <cuda_runtime_api.h>

namespace mbench::cuda {

// to[0] = amax_a amax_b / (6 * 448)^2, to[1] = beta.
void write_nv_factors(cudaStream_t stream, const float* amax_a, const float* amax_b, float beta, float* to);

// *to_a = *a, *to_b = *b.
void copy_scales(cudaStream_t stream, const float* a, const float* b, float* to_a, float* to_b);

}  // namespace mbench::cuda
