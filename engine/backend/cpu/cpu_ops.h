// The CPU's table of ops: f32 arithmetic on f32, bf16 or f16 storage, OpenMP threads, matrix products by
// CBLAS. Every run() stands in the source file named after its op's header.
#pragma once
#include "engine/backend/cpu/scratch.h"
#include "engine/ops/ops.h"

namespace mbench::cpu {

class CpuOps final : public OpTable {
 public:
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
  Scratch scratch_;
};

}  // namespace mbench::cpu
