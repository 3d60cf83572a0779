#include "test/fake_cuda/cudnn/paper_runtime.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <fmt/format.h>

#include <cstdlib>

namespace fake_cuda {
namespace {

int& capability() {
  static int it = 90;
  return it;
}

// What the frontend wrote into each variant pack, which cuDNN does not read out again.
struct Pack {
  std::vector<std::int64_t> names;
  std::vector<const void*> addresses;
  const void* workspace = nullptr;
};
std::map<cudnnBackendDescriptor_t, Pack>& packs() {
  static std::map<cudnnBackendDescriptor_t, Pack> all;
  return all;
}

template <class T>
std::vector<T> list_of(const void* values, std::int64_t count) {
  const auto* first = static_cast<const T*>(values);
  return std::vector<T>(first, first + count);
}

}  // namespace

void be(int what) {
  capability() = what;
}

std::string device() {
  const bool hopper = capability() == 90;
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":{},)"
      R"("smClockRateKHz":{},"memClockRateKHz":{},"l2CacheSize":{},"cudaDeviceId":0,"deviceVer":{},)"
      R"("driverVer":{},"deviceName":"{}"}})",
      hopper ? 132 : 108, hopper ? 232448 : 166912, hopper ? 150000000000 : 85000000000,
      hopper ? 1980000 : 1410000, hopper ? 3201000 : 1593000, hopper ? 62914560 : 41943040, capability() * 10,
      CUDART_VERSION, hopper ? "NVIDIA H200" : "NVIDIA A100-SXM4-80GB");
}

std::vector<Step>& steps() {
  static std::vector<Step> all;
  return all;
}

}  // namespace fake_cuda

extern "C" {

cudaError_t __wrap_cudaGetDevice(int* ordinal) {
  *ordinal = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  properties->major = fake_cuda::capability() / 10;
  properties->minor = fake_cuda::capability() % 10;
  return cudaSuccess;
}
cudaError_t __wrap_cudaGetDeviceProperties_v2(cudaDeviceProp* properties,
                                              int ordinal) {  // its name in CUDA 12
  return __wrap_cudaGetDeviceProperties(properties, ordinal);
}
cudaError_t __wrap_cudaMallocAsync(void** memory, std::size_t bytes, cudaStream_t) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return cudaSuccess;
}
cudaError_t __wrap_cudaFreeAsync(void* memory, cudaStream_t) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t __wrap_cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t __wrap_cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  fake_cuda::Step step;
  step.kernel = true;
  fake_cuda::steps().push_back(step);
  return cudaSuccess;
}
cudnnStatus_t __wrap_cudnnGetStream(cudnnHandle_t, cudaStream_t* stream) {
  *stream = nullptr;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t __real_cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                              cudnnBackendAttributeType_t, std::int64_t, const void*);
cudnnStatus_t __wrap_cudnnBackendSetAttribute(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, std::int64_t count,
                                              const void* values) {
  if (name == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
    fake_cuda::packs()[to].names = fake_cuda::list_of<std::int64_t>(values, count);
  else if (name == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
    fake_cuda::packs()[to].addresses = fake_cuda::list_of<const void*>(values, count);
  else if (name == CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
    fake_cuda::packs()[to].workspace = fake_cuda::list_of<const void*>(values, count).at(0);
  return __real_cudnnBackendSetAttribute(to, name, type, count, values);
}
cudnnStatus_t __wrap_cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                         cudnnBackendDescriptor_t arguments) {
  const auto found = fake_cuda::packs().find(arguments);
  if (found == fake_cuda::packs().end()) return CUDNN_STATUS_BAD_PARAM;
  const fake_cuda::Pack pack = found->second;
  fake_cuda::packs().erase(found);
  if (pack.names.size() != pack.addresses.size()) return CUDNN_STATUS_BAD_PARAM;
  fake_cuda::Step step;
  for (std::size_t i = 0; i < pack.names.size(); ++i) step.tensors[pack.names[i]] = pack.addresses[i];
  step.workspace = pack.workspace;
  fake_cuda::steps().push_back(step);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
