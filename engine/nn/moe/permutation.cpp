#include "engine/nn/moe/permutation.h"

#include <utility>

#include "engine/ops/combine.h"
#include "engine/ops/dispatch.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

Tensor integers(Context& c, const Shape& shape, std::string_view what) {
  return c.device.empty(shape, DType::i64, Category::activations, what);
}

}  // namespace

Permutation::Permutation(const Plan& plan, const MoeSpec& spec)
    : active_(spec.active),
      weights_go_(plan.keeps().weights_within_experts || spec.routing.weighted == Weighted::input) {}

ops::DispatchPlan Permutation::plan(Context& c, const Tensor& experts, const Tensor& rows, std::int64_t here,
                                    std::int64_t capacity, std::int64_t most, Saved& saved) const {
  ops::DispatchPlan plan;
  plan.experts = experts;
  plan.capacity = capacity;
  plan.rows = saved.rows = rows;
  plan.counts = integers(c, {here}, "tokens of experts");
  plan.offsets = integers(c, {here + 1}, "first rows of experts");
  plan.pairs = saved.pairs = integers(c, {most}, "tokens of rows");
  return plan;
}

Tensor Permutation::count(Context& c, const Tensor& chosen, std::int64_t experts) const {
  ops::DispatchPlan plan;
  plan.experts = chosen;
  plan.rows = integers(c, plan.experts.shape(), "rows of own tokens");
  plan.pairs = integers(c, {plan.experts.numel()}, "own tokens of rows");
  plan.offsets = integers(c, {experts + 1}, "first rows of own tokens");
  plan.counts = integers(c, {experts}, "own tokens of experts");
  run(c.device, plan);
  return plan.counts;
}

Tensor Permutation::permute(Context& c, const Tensor& tokens, Saved& saved) const {
  const Tensor rows = c.activation({saved.pairs.numel(), tokens.shape().cols()}, "dispatched tokens");
  run(c.device, ops::Dispatch{tokens, saved.pairs, active_, rows});
  return rows;
}

Tensor Permutation::permute_weights(Context& c, Saved& saved) const {
  const Tensor weights = std::exchange(saved.weights, Tensor());
  const Tensor rows = c.device.empty({saved.pairs.numel(), 1}, DType::f32, Category::activations, "weights of rows");
  run(c.device, ops::Dispatch{weights.view({weights.numel(), 1}), saved.pairs, 1, rows});
  return rows;
}

void Permutation::unpermute(Context& c, Tensor made, const Tensor& sum, Saved& saved) const {
  if (weights_go_) return run(c.device, ops::DispatchGrad{made, saved.rows, sum});
  run(c.device, ops::Combine{made, saved.rows, saved.weights, sum});
  saved.output = std::move(made);
}

Tensor Permutation::unpermute_backward(Context& c, const Tensor& dsum, const Tensor& dweights, Saved& saved) const {
  Tensor made;
  if (weights_go_) {
    made = c.activation({saved.pairs.numel(), dsum.shape().cols()}, "gradient of experts' outputs");
    run(c.device, ops::Dispatch{dsum, saved.pairs, active_, made});
  } else {
    made = std::exchange(saved.output, Tensor());
    run(c.device, ops::CombineGrad{dsum, made, saved.rows, saved.weights, saved.pairs, made, dweights});
  }
  saved.weights.reset();
  saved.pairs.reset();
  return made;
}

void Permutation::permute_weights_backward(Context& c, const Tensor& of_rows, const Tensor& dweights,
                                           const Saved& saved) const {
  const Shape pairs{dweights.numel(), 1};
  run(c.device, ops::DispatchGrad{of_rows, saved.rows.view(pairs), dweights.view(pairs)});
}

void Permutation::permute_backward(Context& c, const Tensor& drows, const Tensor& dx, const Saved& saved) const {
  run(c.device, ops::DispatchGrad{drows, saved.rows, dx});
}

}  // namespace mbench::nn
