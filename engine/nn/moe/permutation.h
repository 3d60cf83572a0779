// Tokens of a rank to rows by expert and back, which Megatron-Core calls permute and unpermute. A token has a row for each of its experts
// that counts here. Where weights go to the experts, they are permuted too and what comes back is summed as it is.
#pragma once
#include "engine/nn/moe/expert_gemms.h"
#include "engine/ops/dispatch_plan.h"

namespace mbench::nn {

class Permutation {
 public:
  struct Saved {
    Tensor rows, pairs;  // as DispatchPlan makes them: [..., k] and [rows] i64
    Tensor weights;      // of the tokens, [..., k] f32, unless they went to the experts
    Tensor output;       // of the experts, a row for each that was dispatched, where weights multiply it
    Shape tokens{};      // [..., width]
  };
  Permutation(const Plan& plan, const MoeSpec& spec);
  // Whether weights go to the experts, with the rows: where the framework has them within experts, or the model multiplies inputs by them.
  bool weights_go() const { return weights_go_; }

  // The op that plans it, not run yet, for experts [..., k] i64. `here`: how many of them have rows; `most`: rows that there is room for;
  // `rows`: for Saved::rows.
  ops::DispatchPlan plan(Context& context, const Tensor& experts, const Tensor& rows, std::int64_t here,
                         std::int64_t capacity, std::int64_t most, Saved& saved) const;
  // How many of the tokens chose each of all experts, [experts] i64: by a plan of its own.
  Tensor count(Context& context, const Tensor& chosen, std::int64_t experts) const;

  // [rows, width].
  Tensor permute(Context& context, const Tensor& tokens, Saved& saved) const;
  // The weights of the rows, [rows, 1] f32, zero in padding. Those of the tokens are freed.
  Tensor permute_weights(Context& context, Saved& saved) const;
  // Writes the sums of `made` to `sum`, [tokens, width].
  void unpermute(Context& context, Tensor made, const Tensor& sum, Saved& saved) const;

  // The gradient of the experts' outputs, from the gradient of the sums. Where weights multiply here, `dweights` [..., k] f32 gets theirs.
  Tensor unpermute_backward(Context& context, const Tensor& dsum, const Tensor& dweights, Saved& saved) const;
  // Where they were permuted: from the gradients of the rows' weights.
  void permute_weights_backward(Context& context, const Tensor& of_rows, const Tensor& dweights,
                                const Saved& saved) const;
  void permute_backward(Context& context, const Tensor& drows, const Tensor& dx, const Saved& saved) const;

 private:
  std::int64_t active_;
  bool weights_go_;
};

}  // namespace mbench::nn
