// A GPU's ops, enqueued on one stream: kernels of our own, cuBLASLt for GEMMs, cuDNN for fused attention.
//
// kernels/NAME.cuh has the kernels of engine/ops/NAME.h and `enqueue(Stream&, const ops::NAME&)`, which is all that an op needs
// (kernels/compute.h). Ops that use libraries are computed in matmul/matmul.cu and attention/attention.cu.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "engine/backend/cuda/device/kernel_stream.h"
#include "engine/device/tensor.h"

namespace mbench::cuda {

class MatmulPlans;  // matmul/matmul_plans.h
class Fp8Plans;     // fp8_matmul/fp8_plans.h
class Flash;        // attention/flash.h

struct CudaOps {
  // `memory`: the device's; what is taken outside it counts against its limit. `tf32`: f32 GEMMs round their operands to TF32, for the
  // tensor cores. `idle` waits until the stream is idle. It throws where that will never be: messages that do not come may block the
  // stream.
  CudaOps(cudaStream_t stream, Allocator& memory, bool tf32, std::function<void()> idle);
  ~CudaOps();

  KernelStream kernels;
  Allocator workspace;  // of attention and GEMMs: outside the engine's arena
  std::unique_ptr<MatmulPlans> matmuls;
  std::unique_ptr<Fp8Plans> fp8_matmuls;
  std::unique_ptr<Flash> flash;
};

template <class Op>
void compute(CudaOps& gpu, const Op& op);

}  // namespace mbench::cuda
