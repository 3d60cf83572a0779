#include "test/fake_cuda/cudnn/paper_driver.h"

#include <cuda.h>
#include <elf.h>

#include <cstring>

namespace {

constexpr int kMachineCuda = 190;  // e_machine of a cubin
constexpr int kFlagsOfCuda13 =
    8;  // from this ABI version on the capability stands in the second byte of e_flags

int capability_of(const void* code) {
  Elf64_Ehdr header;
  std::memcpy(&header, code, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != kMachineCuda) return 0;
  const bool shifted = header.e_ident[EI_ABIVERSION] >= kFlagsOfCuda13;
  return static_cast<int>(shifted ? header.e_flags >> 8 & 0xFF : header.e_flags & 0xFF);
}

}  // namespace

namespace fake_cuda {

std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}

}  // namespace fake_cuda

// A library is its capability, a kernel its number.
extern "C" {

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                           CUlibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<CUlibrary>(static_cast<std::intptr_t>(capability_of(code)));
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary) {
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  fake_cuda::kernels().push_back({name, static_cast<int>(reinterpret_cast<std::intptr_t>(library))});
  *kernel = reinterpret_cast<CUkernel>(fake_cuda::kernels().size());
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
  *text = "an error of the paper driver";
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "the paper driver cannot do this";
  return CUDA_SUCCESS;
}
CUresult paper_cannot() {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"

// What cuDNN looks for too, under the names of the library (those of cuda.h may be macros).
#define PAPER_CANNOT(name) asm(".globl " #name "\n.set " #name ", paper_cannot")
PAPER_CANNOT(cuCtxGetCurrent);
PAPER_CANNOT(cuCtxGetLimit);
PAPER_CANNOT(cuCtxPopCurrent);
PAPER_CANNOT(cuCtxPushCurrent);
PAPER_CANNOT(cuLaunchCooperativeKernel);
PAPER_CANNOT(cuLaunchKernel);
PAPER_CANNOT(cuLaunchKernelEx);
PAPER_CANNOT(cuLibraryLoadFromFile);
PAPER_CANNOT(cuLinkAddData);
PAPER_CANNOT(cuLinkComplete);
PAPER_CANNOT(cuLinkCreate);
PAPER_CANNOT(cuLinkDestroy);
PAPER_CANNOT(cuOccupancyMaxPotentialClusterSize);
PAPER_CANNOT(cuStreamGetCtx);
