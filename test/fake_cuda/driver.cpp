// CUDA's driver: the calls by which memory grows in one range of addresses. Found as libcuda.so.1.
#include <cuda.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>

#include "test/fake_cuda/handles.h"
#include "test/fake_cuda/memory.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;

struct Backing {
  std::size_t bytes;
  CUdeviceptr at = 0;  // where it is mapped, 0: nowhere
  bool released = false;
};

struct Addresses {
  std::mutex mutex;
  std::map<CUdeviceptr, std::size_t> reserved;
  std::map<CUmemGenericAllocationHandle, Backing> backings;
  CUmemGenericAllocationHandle next = 1;
};

// Never destroyed, as the engine.
Addresses& addresses() {
  static Addresses& a = *new Addresses;
  return a;
}

CUresult no(std::string_view call, std::string_view why) {
  complain(call, why);
  return CUDA_ERROR_INVALID_VALUE;
}

void* pointer(CUdeviceptr at) {
  return reinterpret_cast<void*>(at);
}

bool of_a_gpu(const CUmemLocation& where) {
  return where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id >= 0 && where.id < settings().count;
}

bool is_reserved(CUdeviceptr at, std::size_t bytes) {
  auto it = addresses().reserved.upper_bound(at);
  if (it == addresses().reserved.begin()) return false;
  --it;
  return at + bytes <= it->first + it->second;
}

// With the lock held: the memory is given back when nobody has it any more.
void forget_unused(CUmemGenericAllocationHandle handle) {
  const auto it = addresses().backings.find(handle);
  if (!it->second.released || it->second.at != 0) return;
  Memory::get().give(it->second.bytes);
  addresses().backings.erase(it);
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuGetErrorString(CUresult code, const char** text) {
  switch (code) {
    case CUDA_SUCCESS:
      *text = "no error";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_VALUE:
      *text = "invalid argument";
      return CUDA_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      *text = "out of memory";
      return CUDA_SUCCESS;
    case CUDA_ERROR_INVALID_DEVICE:
      *text = "invalid device ordinal";
      return CUDA_SUCCESS;
    default:
      *text = nullptr;
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemGetAllocationGranularity(size_t* granule, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags) {
  if (!of_a_gpu(prop->location)) return CUDA_ERROR_INVALID_DEVICE;
  *granule = kGranule;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* at, size_t bytes, size_t, CUdeviceptr, unsigned long long flags) {
  if (bytes == 0 || bytes % kGranule != 0 || flags != 0) return no("cuMemAddressReserve", "size or flags");
  void* start = mmap(nullptr, bytes + kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(addresses().mutex);
  *at = (reinterpret_cast<CUdeviceptr>(start) + kGranule - 1) / kGranule * kGranule;
  addresses().reserved[*at] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t bytes) {
  const std::lock_guard lock(addresses().mutex);
  const auto it = addresses().reserved.find(at);
  if (it == addresses().reserved.end() || it->second != bytes)
    return no("cuMemAddressFree", "no range of this size was reserved there");
  for (const auto& [handle, backing] : addresses().backings)
    if (backing.at >= at && backing.at < at + bytes) return no("cuMemAddressFree", "something is mapped there");
  addresses().reserved.erase(it);
  return CUDA_SUCCESS;  // the addresses stay taken: a use after the end faults
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  if (bytes == 0 || bytes % kGranule != 0 || flags != 0) return no("cuMemCreate", "size or flags");
  if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return no("cuMemCreate", "type of the allocation");
  if (!of_a_gpu(prop->location)) return CUDA_ERROR_INVALID_DEVICE;
  if (!Memory::get().take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(addresses().mutex);
  *handle = addresses().next++;
  addresses().backings[*handle] = {bytes};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(addresses().mutex);
  const auto it = addresses().backings.find(handle);
  if (it == addresses().backings.end() || it->second.released) return no("cuMemRelease", "no such handle");
  it->second.released = true;
  forget_unused(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const std::lock_guard lock(addresses().mutex);
  const auto it = addresses().backings.find(handle);
  if (it == addresses().backings.end() || it->second.released) return no("cuMemMap", "no such handle");
  if (offset != 0 || flags != 0 || bytes != it->second.bytes || at % kGranule != 0 || it->second.at != 0)
    return no("cuMemMap", "not the whole allocation, once, at a multiple of the granule");
  if (!is_reserved(at, bytes)) return no("cuMemMap", "the addresses are not reserved");
  for (const auto& [other, backing] : addresses().backings)
    if (backing.at != 0 && backing.at < at + bytes && at < backing.at + backing.bytes)
      return no("cuMemMap", "something is mapped there");
  it->second.at = at;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (count != 1 || !of_a_gpu(access->location) || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return no("cuMemSetAccess", "not for one GPU to read and write");
  const std::lock_guard lock(addresses().mutex);
  for (const auto& [handle, backing] : addresses().backings) {
    if (backing.at != at || backing.bytes != bytes) continue;
    if (mprotect(pointer(at), bytes, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
    std::memset(pointer(at), 0xFF, bytes);
    Memory::get().add_mapped(pointer(at), bytes);
    return CUDA_SUCCESS;
  }
  return no("cuMemSetAccess", "nothing of this size is mapped there");
}

CUresult cuMemUnmap(CUdeviceptr at, size_t bytes) {
  const std::lock_guard lock(addresses().mutex);
  for (auto& [handle, backing] : addresses().backings) {
    if (backing.at != at || backing.bytes != bytes) continue;
    Memory::get().remove_mapped(pointer(at));
    mmap(pointer(at), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    backing.at = 0;
    forget_unused(handle);
    return CUDA_SUCCESS;
  }
  return no("cuMemUnmap", "nothing of this size is mapped there");
}

}  // extern "C"
