// The functions of the CUDA driver that growing memory needs, found in libcuda.so.1 at the first call. A binary linked against the driver
// would not start on a machine without one.
#pragma once
#include <cuda.h>

#include <string_view>

namespace mbench::cuda {

struct Driver {
  decltype(&cuGetErrorString) error_string;
  decltype(&cuMemAddressReserve) reserve;
  decltype(&cuMemAddressFree) free_addresses;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
};

// Throws unsupported if there is no driver, or an old one lacks a function.
const Driver& driver();

// Throws an internal error naming the call unless `code` is success.
void driver_check(std::string_view where, CUresult code);

}  // namespace mbench::cuda
