#include "engine/backend/cuda/device/pinned_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {

PinnedMemory::~PinnedMemory() {
  for (const auto& [begin, end] : pieces_) cudaHostUnregister(base() + begin);  // the context may be gone
}

bool PinnedMemory::commit(std::size_t bytes) {
  if (bytes <= locked_) return true;
  if (!memory_->commit(bytes)) return false;
  const cudaError_t code = cudaHostRegister(base() + locked_, bytes - locked_, cudaHostRegisterDefault);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // it is told by what is returned, and must not show up in a later call
    return false;
  }
  cuda_check("host memory", code);
  pieces_[locked_] = bytes;
  locked_ = bytes;
  return true;
}

std::size_t PinnedMemory::in_one_piece(const std::byte* at, std::size_t bytes) const {
  const auto offset = static_cast<std::size_t>(at - base());
  const auto next = pieces_.upper_bound(offset);
  check(offset < locked_ && next != pieces_.begin(), "host memory", "an address that is not locked");
  return std::min(bytes, std::prev(next)->second - offset);
}

}  // namespace mbench::cuda
