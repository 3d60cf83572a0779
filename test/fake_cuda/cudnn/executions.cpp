#include "test/fake_cuda/cudnn/executions.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <stdexcept>

#include "test/fake_cuda/kernels.h"
#include "test/fake_cuda/settings.h"

namespace fake_cuda {
namespace {

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

std::string device_for_cudnn() {
  // cuDNN looks for the driver by this name, and finds it loaded: the fake one, where this program looks.
  static void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) throw std::runtime_error(dlerror());
  const int capability = settings().capability;
  const bool hopper = capability == 90;
  return fmt::format(
      R"({{"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)"
      R"("multiProcessorCount":{},"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":{},)"
      R"("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":{},)"
      R"("smClockRateKHz":{},"memClockRateKHz":{},"l2CacheSize":{},"cudaDeviceId":0,"deviceVer":{},)"
      R"("driverVer":{},"deviceName":"{}"}})",
      hopper ? 132 : 108, hopper ? 232448 : 166912, hopper ? 150000000000 : 85000000000, hopper ? 1980000 : 1410000,
      hopper ? 3201000 : 1593000, hopper ? 62914560 : 41943040, capability * 10, CUDART_VERSION,
      hopper ? "NVIDIA H200" : "NVIDIA A100-SXM4-80GB");
}

std::size_t& cudnn_version() {
  static std::size_t version = 0;
  return version;
}

std::vector<Execution>& executions() {
  static std::vector<Execution> all;
  return all;
}

}  // namespace fake_cuda

extern "C" {

std::size_t __real_cudnnGetVersion();
std::size_t __wrap_cudnnGetVersion() {
  const std::size_t other = fake_cuda::cudnn_version();
  return other != 0 ? other : __real_cudnnGetVersion();
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
cudnnStatus_t __wrap_cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t arguments) {
  const auto found = fake_cuda::packs().find(arguments);
  if (found == fake_cuda::packs().end()) return CUDNN_STATUS_BAD_PARAM;
  const fake_cuda::Pack pack = found->second;
  fake_cuda::packs().erase(found);
  if (pack.names.size() != pack.addresses.size()) return CUDNN_STATUS_BAD_PARAM;
  fake_cuda::Execution done;
  for (std::size_t i = 0; i < pack.names.size(); ++i) done.tensors[pack.names[i]] = pack.addresses[i];
  done.workspace = pack.workspace;
  done.launches = fake_cuda::launches();
  fake_cuda::executions().push_back(done);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
