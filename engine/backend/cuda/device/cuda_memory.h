// Memory of a GPU in one range of addresses that grows at its top. Addresses are reserved once, memory is mapped to them on demand, and
// nothing moves.
#pragma once
#include <cuda.h>

#include <vector>

#include "engine/device/allocator.h"

namespace mbench::cuda {

class CudaMemory final : public RawMemory {
 public:
  // Memory of the GPU that CUDA counts as `ordinal`, whose context must exist; `capacity`: bytes of addresses.
  CudaMemory(int ordinal, std::size_t capacity);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  std::byte* base() const override { return reinterpret_cast<std::byte*>(base_); }
  bool commit(std::size_t bytes) override;
  std::size_t granule() const override { return granule_; }

 private:
  CUmemAllocationProp where() const;
  struct Piece {
    CUmemGenericAllocationHandle handle;
    std::size_t offset, size;
  };
  int ordinal_;
  CUdeviceptr base_ = 0;
  std::size_t granule_ = 0, capacity_ = 0, committed_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace mbench::cuda
