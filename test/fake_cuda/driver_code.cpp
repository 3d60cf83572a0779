// CUDA's driver: the calls by which a library loads what it compiled, and those that it only looks for.
#include "test/fake_cuda/driver_code.h"

#include <cuda.h>
#include <elf.h>

#include <cstring>

namespace {

constexpr int kMachineCuda = 190;  // e_machine of a cubin
// From this ABI version on the capability stands in the second byte of e_flags.
constexpr int kFlagsOfCuda13 = 8;

int capability_of(const void* code) {
  Elf64_Ehdr header;
  std::memcpy(&header, code, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineCuda) return 0;
  const bool shifted = header.e_ident[EI_ABIVERSION] >= kFlagsOfCuda13;
  return static_cast<int>(shifted ? header.e_flags >> 8 & 0xFF : header.e_flags & 0xFF);
}

}  // namespace

namespace fake_cuda {

std::vector<LoadedKernel>& loaded_kernels() {
  static std::vector<LoadedKernel> all;
  return all;
}

}  // namespace fake_cuda

// A library is its capability, a kernel its number.
extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(static_cast<std::intptr_t>(capability_of(code)));
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary) {
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  fake_cuda::loaded_kernels().push_back({name, static_cast<int>(reinterpret_cast<std::intptr_t>(library))});
  *kernel = reinterpret_cast<CUkernel>(fake_cuda::loaded_kernels().size());
  return CUDA_SUCCESS;
}
CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) {
  return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute, CUkernel, CUdevice) {
  *value = 0;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult, const char** text) {
  *text = "an error of the fake driver";
  return CUDA_SUCCESS;
}
CUresult fake_cuda_cannot() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"

// What cuDNN looks for too, under the names of the library (those of cuda.h may be macros).
#define FAKE_CUDA_CANNOT(name) asm(".globl " #name "\n.set " #name ", fake_cuda_cannot")
FAKE_CUDA_CANNOT(cuCtxGetCurrent);
FAKE_CUDA_CANNOT(cuCtxGetLimit);
FAKE_CUDA_CANNOT(cuCtxPopCurrent);
FAKE_CUDA_CANNOT(cuCtxPushCurrent);
FAKE_CUDA_CANNOT(cuLaunchCooperativeKernel);
FAKE_CUDA_CANNOT(cuLaunchKernel);
FAKE_CUDA_CANNOT(cuLaunchKernelEx);
FAKE_CUDA_CANNOT(cuLibraryLoadFromFile);
FAKE_CUDA_CANNOT(cuLinkAddData);
FAKE_CUDA_CANNOT(cuLinkComplete);
FAKE_CUDA_CANNOT(cuLinkCreate);
FAKE_CUDA_CANNOT(cuLinkDestroy);
FAKE_CUDA_CANNOT(cuOccupancyMaxPotentialClusterSize);
FAKE_CUDA_CANNOT(cuStreamGetCtx);
