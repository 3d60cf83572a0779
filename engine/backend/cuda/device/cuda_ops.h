// The GPU's table of ops: own kernels, and cuBLASLt for matrix products, enqueued on one stream. Every run()
// stands in the .cu file named after its op's header.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>

#include "engine/backend/cuda/device/kernel_stream.h"
#include "engine/ops/ops.h"

namespace mbench::cuda {

class MatmulPlans;  // matmul_plans.h
class Flash;        // flash.h

class CudaOps final : public OpTable {
 public:
  // `tf32`: f32 matrix products round their operands to TF32, for the tensor cores. `idle` waits until the
  // stream is idle, or throws where it never will be: it may be held up by messages that do not come.
  CudaOps(cudaStream_t stream, bool tf32, std::function<void()> idle);
  ~CudaOps() override;
  void run(const ops::Matmul&) override;
  void run(const ops::BiasAdd&) override;
  void run(const ops::BiasGrad&) override;
  void run(const ops::LayerNorm&) override;
  void run(const ops::LayerNormGrad&) override;
  void run(const ops::BiasGelu&) override;
  void run(const ops::BiasGeluGrad&) override;
  void run(const ops::Dropout&) override;
  void run(const ops::DropoutGrad&) override;
  void run(const ops::BiasDropoutAdd&) override;
  void run(const ops::AttentionMask&) override;
  void run(const ops::Softmax&) override;
  void run(const ops::SoftmaxGrad&) override;
  void run(const ops::Attention&) override;
  void run(const ops::AttentionGrad&) override;
  void run(const ops::Embedding&) override;
  void run(const ops::EmbeddingGrad&) override;
  void run(const ops::RowMax&) override;
  void run(const ops::ExpSum&) override;
  void run(const ops::CrossEntropyLoss&) override;
  void run(const ops::CrossEntropyGrad&) override;
  void run(const ops::Adam&) override;
  void run(const ops::SumSquares&) override;
  void run(const ops::Add&) override;
  void run(const ops::Copy&) override;
  void run(const ops::Fill&) override;
  void run(const ops::RandomNormal&) override;
  void run(const ops::Tanh&) override;
  void run(const ops::TanhGrad&) override;

 private:
  cudaStream_t stream_;
  KernelStream kernels_{stream_};
  std::unique_ptr<Allocator>
      scratch_;  // of attention and products: outside the engine's arena, as on the CPU
  std::unique_ptr<MatmulPlans> matmuls_;
  std::unique_ptr<Flash> flash_;
};

}  // namespace mbench::cuda
