// The second stage of a sum of squares. The first stage left one partial sum for each of its blocks.
#pragma once
#include "engine/backend/cuda/kernels/row.h"

namespace mbench::cuda {

inline constexpr std::int64_t kSquareBlocks = 1024;  // of a first stage, at most

// One block.
template <int Threads>
__global__ void __launch_bounds__(Threads) add_squares(const double* partial, std::int64_t count, float* to) {
  __shared__ SharedArray<double, kWarp> parts;
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = row_reduce(sum, 0.0, parts, Sum());
  if (threadIdx.x == 0) *to = static_cast<float>(*to + sum);
}

}  // namespace mbench::cuda
