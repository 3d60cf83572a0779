// How a kernel is launched. Host functions next to the kernels compute it, so tests see the same shape as the GPU. Plain C++, no CUDA.
#pragma once
#include <cstddef>

namespace mbench::cuda {

struct Launch {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;  // blocks
  unsigned block_x = 1, block_y = 1;            // threads of a block
  std::size_t shared = 0;                       // dynamic shared memory, bytes
};

}  // namespace mbench::cuda
