#include "engine/backend/cuda/cuda.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "engine/backend/cuda/attention/flash.h"
#include "engine/backend/cuda/device/cuda_device.h"
#include "engine/backend/cuda/device/launch.h"

namespace mbench::cuda {
namespace {

constexpr int kTf32Since = 8;  // compute capability: the first tensor cores that take f32 operands

// "13.0" of 13000, as CUDA counts.
std::string dotted(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Gpu describe(int ordinal) {
  cudaDeviceProp p{};
  cuda_check("cuda", cudaGetDeviceProperties(&p, ordinal));
  Gpu g;
  g.ordinal = ordinal;
  g.name = p.name;
  std::memcpy(g.uuid.data(), p.uuid.bytes, g.uuid.size());
  g.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", p.pciDomainID, p.pciBusID, p.pciDeviceID);
  g.major = p.major;
  g.minor = p.minor;
  g.multiprocessors = p.multiProcessorCount;
  g.memory_bytes = p.totalGlobalMem;
  return g;
}

}  // namespace

bool built_in() {
  return true;
}

std::vector<Gpu> gpus() {
  int n = 0;
  if (cudaGetDeviceCount(&n) != cudaSuccess) {
    cudaGetLastError();  // it is told by why_none(), and must not show up in a later call
    n = 0;
  }
  std::vector<Gpu> all;
  for (int i = 0; i < n; ++i) all.push_back(describe(i));
  return all;
}

std::string why_none() {
  int n = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&n);
  cudaGetLastError();
  if (code == cudaSuccess) return n == 0 ? "CUDA sees no GPU" : "";
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return fmt::format("no CUDA driver is installed (libcuda.so.1 is not found; CUDA says: {})",
                       cudaGetErrorString(code));
  return fmt::format("CUDA says: {}", cudaGetErrorString(code));
}

std::string libraries() {
  int runtime = 0, driver = 0;
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  const std::size_t lt = cublasLtGetVersion();  // 130002 for 13.0.2, 120304 for 12.3.4
  return fmt::format("CUDA {}, driver {}, cuBLASLt {}.{}.{}, {}", dotted(runtime),
                     driver == 0 ? std::string("none") : "for CUDA " + dotted(driver), lt / 10000, lt / 100 % 100,
                     lt % 100, cudnn_library());
}

std::unique_ptr<StreamDevice> open_device(const DeviceOptions& options) {
  const std::vector<Gpu> all = gpus();
  if (all.empty()) fail(ErrorKind::unsupported, "cuda", "no GPU: {}", why_none());
  if (options.ordinal < 0 || options.ordinal >= static_cast<int>(all.size()))
    fail(ErrorKind::unsupported, "cuda", "GPU number, got {}, need less than {}", options.ordinal, all.size());
  const Gpu& gpu = all[static_cast<std::size_t>(options.ordinal)];
  if (options.tf32 && gpu.major < kTf32Since)
    fail(ErrorKind::unsupported, "cuda", "tf32 on {} of compute capability {}.{}, need {}.0 or later, or f32", gpu.name,
         gpu.major, gpu.minor, kTf32Since);
  return std::make_unique<CudaDevice>(options);
}

}  // namespace mbench::cuda
