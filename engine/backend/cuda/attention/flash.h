// Attention without kept probabilities (attention "flash") by cuDNN's fused kernels. A plan is made once for the sizes and strides of an op
// and kept. It reads and writes the engine's strided views in place. Two runs of a forward give the same bits. So do two gradients if their
// op is deterministic; these are computed in pieces of bounded memory. Where the binary was built without cuDNN and its frontend,
// flash_missing.cpp answers.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "engine/backend/cuda/device/kernel_stream.h"
#include "engine/device/allocator.h"
#include "engine/ops/attention.h"

namespace mbench::cuda {

class Flash {
 public:
  // Workspace comes from `workspace`, outside the engine's arena. cuDNN is loaded with the first op. `device`: for tests on machines
  // without a GPU, the device to plan for, in cuDNN's notation.
  Flash(cudaStream_t stream, KernelStream& kernels, Allocator& workspace, std::string device = "");
  ~Flash();
  Flash(const Flash&) = delete;
  Flash& operator=(const Flash&) = delete;

  // Both throw unsupported, saying why, where there is no cuDNN or it has no kernel for the op. The keys that `keep` keeps must be the
  // first of their sample, and at least one. Otherwise the device stops, since cuDNN takes only their number.
  void run(const ops::Attention& op);
  void run(const ops::AttentionGrad& op);

 private:
  struct Plans;
  std::unique_ptr<Plans> plans_;
};

// "cuDNN 9.19.0", or "no cuDNN (...)" with the reason.
std::string cudnn_library();

}  // namespace mbench::cuda
