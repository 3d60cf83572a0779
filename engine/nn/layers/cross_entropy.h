// Cross entropy of logits that are whole, or whose columns are split over the ranks of an axis. With replicas in one
// process (replicas.h), the first computes the loss of all of them, and its targets are those of all.
#pragma once
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

class CrossEntropy {
 public:
  struct Saved {
    Tensor exp, sum;  // eager: exponentials and their sums, for the gradient
    Tensor dlogits;   // fused: the gradient itself, computed in place of the logits
    Tensor logits, max,
        log_probabilities;  // PyTorch's in 16 bits: what the gradient needs, and what autograd keeps for it
    Tensor held;            // the model's output, where the framework holds it until the gradient is made
    Shape own;              // of this replica's logits, where the first one computes the loss of all
  };
  struct Targets {
    Tensor labels;             // [rows]
    Tensor weights;            // optional [rows] f32
    float inv_weight_sum = 1;  // loss = inv_weight_sum * sum of weight * loss of the row
    float gradient_scale = 1;
    // [2] f32, where steps are replayed: inv_weight_sum, and that times gradient_scale.
    Tensor factors{};
    Tensor loss_factor() const { return factors ? factors.slice(0, 1) : Tensor(); }
    Tensor gradient_factor() const { return factors ? factors.slice(1, 1) : Tensor(); }
  };
  // `columns`: real columns of the whole vocabulary; those beyond pad it.
  // `logits`: how they lie; their last dim is 2.
  CrossEntropy(std::int64_t columns, const Spread& logits, const Mesh& mesh);
  // Writes the loss; the logits are the callee's to overwrite.
  void forward(Context& context, Tensor logits, const Targets& targets, const Tensor& loss, Saved& saved) const;
  // d(loss)/d(logits), in the model's dtype.
  Tensor backward(Context& context, const Targets& targets, Saved& saved) const;

 private:
  void compute(Context& context, Tensor logits, const Targets& targets, const Tensor& loss, Saved& saved) const;
  Tensor compute_gradient(Context& context, const Targets& targets, Saved& saved) const;
  Tensor gradient_of_logits(Context& context, const Targets& targets, Saved& saved) const;
  // The first of this rank's columns, of n.
  std::int64_t first_column(const Context& context, std::int64_t n) const;
  std::int64_t columns_;
  Axes split_;  // along which the columns are split: at most one axis
};

}  // namespace mbench::nn
