#include "engine/backend/cuda/device/cuda_ops.h"

#include <utility>

#include "engine/backend/cuda/attention/flash.h"
#include "engine/backend/cuda/device/cuda_memory.h"
#include "engine/backend/cuda/device/launch.h"
#include "engine/backend/cuda/fp8_matmul/fp8_plans.h"
#include "engine/backend/cuda/matmul/matmul_plans.h"

namespace mbench::cuda {
namespace {

// Memory of the current GPU that is charged as it grows.
class WorkspaceMemory final : public RawMemory {
 public:
  explicit WorkspaceMemory(Allocator& memory) : charged_(memory) {
    int ordinal = 0;
    std::size_t free = 0, total = 0;
    cuda_check("cuda", cudaGetDevice(&ordinal));
    cuda_check("cuda", cudaMemGetInfo(&free, &total));
    raw_ = std::make_unique<CudaMemory>(ordinal, total);
  }
  std::byte* base() const override { return raw_->base(); }
  std::size_t granule() const override { return raw_->granule(); }
  bool commit(std::size_t bytes) override {
    charged_.resize(bytes, "workspace of attention and GEMMs");
    if (raw_->commit(bytes)) {
      committed_ = bytes;
      return true;
    }
    charged_.resize(committed_, "");
    return false;
  }

 private:
  LibraryMemory charged_;
  std::unique_ptr<CudaMemory> raw_;
  std::size_t committed_ = 0;
};

}  // namespace

CudaOps::CudaOps(cudaStream_t stream, Allocator& memory, bool tf32, std::function<void()> idle)
    : kernels(stream, memory),
      workspace(std::make_unique<WorkspaceMemory>(memory), 0),
      matmuls(std::make_unique<MatmulPlans>(stream, *this, memory, tf32, std::move(idle))),
      fp8_matmuls(std::make_unique<Fp8Plans>(stream, memory)),
      flash(std::make_unique<Flash>(stream, kernels, workspace)) {}

CudaOps::~CudaOps() = default;

}  // namespace mbench::cuda
