// Logits, their loss and all gradients that follow, of some positions at a time and in forward (Liger-Kernel's
// LigerFusedLinearCrossEntropy). Logits of all positions never exist. From forward to backward there are the gradients of the head's
// input and of its weight. Where every rank has the whole vocabulary.
#pragma once
#include "engine/nn/layers/cross_entropy.h"
#include "engine/nn/linear/linear.h"

namespace mbench::model {

class ChunkedLoss {
 public:
  struct Saved {
    Tensor dx, dweight;  // the latter empty where the weight is frozen
  };
  // Logits are multiplied by `scale`, and capped unless `cap` is 0.
  ChunkedLoss(const nn::Linear& logits, const nn::CrossEntropy& loss, float scale, float cap)
      : logits_(logits), loss_(loss), scale_(scale), cap_(cap) {}

  // How many of `rows` positions are in a chunk: a power of two, with which logits take about as much memory as the input (Liger-Kernel,
  // src/liger_kernel/ops/fused_linear_cross_entropy.py).
  static std::int64_t rows_of_chunk(std::int64_t rows, std::int64_t hidden, std::int64_t columns);

  // x: [seq, batch, hidden]. Writes the loss.
  void forward(nn::Context& context, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
               Saved& saved) const;
  // The gradient of x; adds the gradient of the weight.
  Tensor backward(nn::Context& context, Saved& saved) const;

 private:
  void chunk(nn::Context& context, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
             const Tensor& dx, const Tensor& dweight, bool first) const;

  const nn::Linear& logits_;
  const nn::CrossEntropy& loss_;
  float scale_, cap_;
};

}  // namespace mbench::model
