// GEMMs over no rows, which cuBLASLt does not take: the weight gradients of experts that get no tokens are scaled.
#pragma once
#include "engine/backend/cuda/matmul/matmul.cuh"
#include "engine/ops/grouped_matmul.h"

namespace mbench::cuda {

template <class Stream>
void enqueue(Stream& stream, const ops::GroupedMatmul& op) {
  if (op.gemm != ops::GroupedMatmul::Gemm::weight_gradient || op.beta == 1) return;
  for (std::int64_t e = 0; e < op.experts(); ++e)
    if (const ops::Matmul gemm = op.of(e); gemm.a.cols == 0) enqueue(stream, gemm);
}

}  // namespace mbench::cuda
