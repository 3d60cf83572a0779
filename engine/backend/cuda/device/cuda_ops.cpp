#include "engine/backend/cuda/device/cuda_ops.h"

#include <utility>

#include "engine/backend/cuda/device/cuda_memory.h"
#include "engine/backend/cuda/attention/flash.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/cuda/matmul/matmul_plans.h"

namespace mbench::cuda {
namespace {

std::unique_ptr<Allocator> scratch_of_this_gpu() {
  int ordinal = 0;
  std::size_t free = 0, total = 0;
  cuda_check("cuda", cudaGetDevice(&ordinal));
  cuda_check("cuda", cudaMemGetInfo(&free, &total));
  return std::make_unique<Allocator>(std::make_unique<CudaMemory>(ordinal, total), 0);
}

}  // namespace

CudaOps::CudaOps(cudaStream_t stream, bool tf32, std::function<void()> idle)
    : stream_(stream),
      scratch_(scratch_of_this_gpu()),
      matmuls_(std::make_unique<MatmulPlans>(stream, *this, *scratch_, tf32, std::move(idle))),
      flash_(std::make_unique<Flash>(stream, kernels_, *scratch_)) {}

CudaOps::~CudaOps() = default;

}  // namespace mbench::cuda
