#include "engine/backend/cuda/device/driver.h"

#include <dlfcn.h>

#include "engine/base/error.h"

namespace mbench::cuda {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (!function) fail(ErrorKind::unsupported, "cuda", "the driver has no {}, need driver 450 or newer", name);
}

Driver load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) fail(ErrorKind::unsupported, "cuda", "no driver, got: {}", ::dlerror());
  Driver d{};
  find(library, "cuGetErrorString", d.error_string);
  find(library, "cuMemAddressReserve", d.reserve);
  find(library, "cuMemAddressFree", d.free_addresses);
  find(library, "cuMemGetAllocationGranularity", d.granularity);
  find(library, "cuMemCreate", d.create);
  find(library, "cuMemRelease", d.release);
  find(library, "cuMemMap", d.map);
  find(library, "cuMemUnmap", d.unmap);
  find(library, "cuMemSetAccess", d.set_access);
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver d = load();
  return d;
}

void driver_check(std::string_view where, CUresult code) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  driver().error_string(code, &text);
  fail(ErrorKind::internal, where, "CUDA driver call failed, got {} ({})", static_cast<int>(code),
       text ? text : "unknown error");
}

}  // namespace mbench::cuda
