#include "engine/backend/cuda/device/cuda_memory.h"

#include "engine/backend/cuda/device/driver.h"

namespace mbench::cuda {

CUmemAllocationProp CudaMemory::where() const {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = ordinal_;
  return p;
}

CudaMemory::CudaMemory(int ordinal, std::size_t capacity) : ordinal_(ordinal) {
  const CUmemAllocationProp prop = where();
  driver_check("memory", driver().granularity(&granule_, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  capacity_ = (capacity + granule_ - 1) / granule_ * granule_;
  driver_check("memory", driver().reserve(&base_, capacity_, 0, 0, 0));
}

CudaMemory::~CudaMemory() {
  // At the end of a run that failed the context may be gone: nothing to be done about it here.
  for (const Piece& p : pieces_) {
    driver().unmap(base_ + p.offset, p.size);
    driver().release(p.handle);
  }
  driver().free_addresses(base_, capacity_);
}

bool CudaMemory::commit(std::size_t bytes) {
  if (bytes > capacity_) return false;
  if (bytes <= committed_) return true;
  const std::size_t size = bytes - committed_;
  const CUmemAllocationProp prop = where();
  Piece piece{0, committed_, size};
  const CUresult created = driver().create(&piece.handle, size, &prop, 0);
  if (created == CUDA_ERROR_OUT_OF_MEMORY) return false;
  driver_check("memory", created);
  CUmemAccessDesc access{};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult mapped = driver().map(base_ + piece.offset, size, 0, piece.handle, 0);
  if (mapped == CUDA_SUCCESS) {
    mapped = driver().set_access(base_ + piece.offset, size, &access, 1);
    if (mapped != CUDA_SUCCESS) driver().unmap(base_ + piece.offset, size);
  }
  if (mapped != CUDA_SUCCESS) {
    driver().release(piece.handle);
    if (mapped == CUDA_ERROR_OUT_OF_MEMORY) return false;
    driver_check("memory", mapped);
  }
  pieces_.push_back(piece);
  committed_ = bytes;
  return true;
}

}  // namespace mbench::cuda
