// What the norms' kernels share: threads for a row, and chunks of rows for their gradients.
#pragma once
#include "engine/backend/cuda/kernels/row.h"

namespace mbench::cuda {

inline constexpr int kNormThreads = 1024, kNormGradThreads = 384;  // the gradient needs more registers

// Chunks by the shape alone: many enough to fill a GPU, few enough that their sums cost little beside the
// rows.
inline std::int64_t norm_chunk_rows(std::int64_t rows, std::int64_t n) {
  const std::int64_t most = std::clamp<std::int64_t>((std::int64_t{1} << 20) / n, 128, 1024);
  return std::max<std::int64_t>(4, (rows + most - 1) / most);
}

}  // namespace mbench::cuda
