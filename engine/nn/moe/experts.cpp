#include "engine/nn/moe/experts.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/state/nf4_weights.h"
#include "engine/ops/add.h"
#include "engine/ops/grouped_matmul.h"
#include "engine/ops/matmul.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_rows.h"
#include "engine/ops/swiglu.h"
#include "engine/point/adapter_weights.h"

namespace mbench::nn {
namespace {

using Gemm = ExpertGemm;

Parameter* add(ParameterStore& store, const Plan& plan, const LinearSpec& linear) {
  return store.add(weight_of(linear), plan.role(linear.role).weight, kTokensOfExperts);
}

// [experts, out], cut as the weight [experts, out, in] is.
Parameter* add_bias_of(ParameterStore& store, const Plan& plan, const LinearSpec& linear) {
  if (!linear.bias) return nullptr;
  const Spread& weight = plan.role(linear.role).weight;
  Spread spread;
  for (int i = 0; i < kAxes; ++i)
    for (const int dim : {0, 1})
      if (const Axis axis = static_cast<Axis>(i); weight[axis].sharded(dim)) spread.set(axis, shard(dim));
  return store.add(bias_of(linear), spread, kTokensOfExperts);
}

ops::RowsOfExperts rows_of(const ExpertRows& rows) {
  return {rows.each, rows.offsets};
}

}  // namespace

Experts::Experts(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Weighted weighted, Regions drop)
    : activation_(spec.activation),
      weighted_(weighted),
      activation_checkpoint_(drop.has(Region::moe_act)),
      fc1_piece_(plan, OffloadedPart::expert_fc1),
      activation_piece_(plan, OffloadedPart::moe_act),
      fc1_(add(store, plan, spec.fc1)),
      fc2_(nullptr) {
  fc1_bias_ = add_bias_of(store, plan, spec.fc1);
  fc2_ = add(store, plan, spec.fc2);
  fc2_bias_ = add_bias_of(store, plan, spec.fc2);
  share_of_bias_ = 1 / static_cast<float>(plan.mesh.size(Axis::etp));
  if (adapts(plan.adapter, spec.fc1)) adapter_1_.emplace(store, plan, spec.fc1);
  if (adapts(plan.adapter, spec.fc2)) adapter_2_.emplace(store, plan, spec.fc2);
  if (plan.adapter.in_4_bits()) {
    store.keep_in_nf4(*fc1_);
    store.keep_in_nf4(*fc2_);
    nf4_ = &store.nf4();
  }
  if (!plan.precision.fp8) return;
  fp8_1_.emplace(store, *fc1_, plan);
  fp8_2_.emplace(store, *fc2_, plan);
}

void Experts::multiply(Context& c, Gemm gemm, const Tensor& x, const Parameter& w, const Tensor& y,
                       const ExpertRows& rows) const {
  if (!nf4_) return multiply_by_expert(c, gemm, x, w.value, y, rows);
  if (c.keeps().grouped_experts) return multiply_by_expert(c, gemm, x, nf4_->dequantised(c, w), y, rows);
  for_each_expert(rows, count(), [&](std::int64_t e, std::int64_t first, std::int64_t n) {
    multiply_by_expert(c, gemm, x.slice(first, n), nf4_->dequantised(c, w, e), y.slice(first, n),
                       {n, {}, 0, rows.fullest});
  });
}

void Experts::add_bias(Context& c, const ExpertRows& rows, const Parameter* bias, const Tensor& y,
                       const Tensor& weights, float share) const {
  if (bias) run(c.device, ops::ExpertBias{y, bias->value, weights, rows_of(rows), share});
}

Tensor Experts::bias_gradients(Context& c, const ExpertRows& rows, const Tensor& dy, const Saved& saved) const {
  if (!fc2_bias_) return {};
  zero_if_stale(c.device, *fc2_bias_);
  ops::ExpertBiasGrad grad{dy, fc2_bias_->gradient};
  grad.rows = rows_of(rows);
  if (saved.weights) {
    grad.weights = saved.weights, grad.bias = fc2_bias_->value, grad.share = share_of_bias_;
    grad.dweights =
        c.device.empty(saved.weights.shape(), DType::f32, Category::activations, "gradient of rows' weights by biases");
  }
  run(c.device, grad);
  return grad.dweights;
}

Tensor Experts::activated(Context& c, Saved& saved) const {
  if (!saved.weights) return activate(c, activation_, saved.wide, Tensor());
  if (is_gated(activation_)) {
    Shape shape = saved.wide.shape();
    shape[-1] /= 2;
    const Tensor y = c.activation(shape, "weighted swiglu output");
    const bool clamped = activation_ == Activation::clamped_swiglu;
    if (clamped && c.keeps().reads_gate_offset && !c.plan.capture) c.device.synchronize();
    run(c.device, ops::SwiGlu{saved.wide, Tensor(), y, saved.weights, Tensor(), gate_of(activation_)});
    return y;
  }
  saved.unweighted = activate(c, activation_, saved.wide, Tensor());
  const Tensor y = c.activation(saved.unweighted.shape(), "weighted output of the activation");
  run(c.device, ops::ScaleRows{saved.unweighted, saved.weights, y});
  return y;
}

Tensor Experts::activate_once(Context& c, Saved& saved) const {
  const auto work = [&] {
    const Tensor y = activated(c, saved);
    if (activation_checkpoint_.dropped() && activation_piece_.leaves(c)) saved.unweighted.reset();
    return y;
  };
  return activation_piece_.forward(c, saved.activation_group, work,
                                   [&](const auto& keep) { keep(saved.wide), keep(saved.weights); });
}

// Before the gradients of the second product, as Megatron-Core's checkpoint that discards its output.
Tensor Experts::activated_again(Context& c, Saved& saved) const {
  Tensor narrow = std::exchange(saved.narrow, Tensor());
  activation_checkpoint_.restore(c, [&] { narrow = activated(c, saved); });
  return narrow;
}

Tensor Experts::gradient_of_wide(Context& c, const ExpertRows& rows, Tensor dnarrow, Saved& saved, Tensor& of_bias,
                                 Tensor& dweights) const {
  const Tensor dwide = gradient_of_activation(c, std::move(dnarrow), saved, dweights);
  if (of_bias) run(c.device, ops::Add{dweights, of_bias, dweights});
  of_bias.reset();
  if (!fc1_bias_ || !fc1_bias_->trains) return dwide;
  zero_if_stale(c.device, *fc1_bias_);
  ops::ExpertBiasGrad grad{dwide, fc1_bias_->gradient};
  grad.rows = rows_of(rows);
  run(c.device, grad);
  return dwide;
}

Tensor Experts::gradient_of_activation(Context& c, Tensor dnarrow, Saved& saved, Tensor& dweights) const {
  const Tensor wide = std::exchange(saved.wide, Tensor()), weights = std::exchange(saved.weights, Tensor());
  if (!weights) return activation_gradient(c, activation_, dnarrow, wide, Tensor());
  dweights = c.device.empty(weights.shape(), DType::f32, Category::activations, "gradient of rows' weights");
  if (is_gated(activation_)) {
    run(c.device, ops::SwiGluGrad{dnarrow, wide, Tensor(), wide, weights, dweights, Tensor(), gate_of(activation_)});
    return wide;
  }
  run(c.device, ops::ScaleRowsGrad{dnarrow, std::exchange(saved.unweighted, Tensor()), weights, dnarrow, dweights});
  return activation_gradient(c, activation_, dnarrow, wide, Tensor());
}

Tensor Experts::forward(Context& c, const ExpertRows& rows, Tensor x, Tensor weights, Saved& saved) const {
  const FullestRank fullest(c.device, rows.fullest);
  if (weighted_ == Weighted::output || !weights) return forward_of(c, rows, std::move(x), std::move(weights), saved);
  Tensor scaled = c.activation(x.shape(), "weighted input of experts");
  run(c.device, ops::ScaleRows{x, weights, scaled});
  saved.unscaled = std::move(x), saved.scales = std::move(weights);
  return forward_of(c, rows, std::move(scaled), Tensor(), saved);
}

Tensor Experts::backward(Context& c, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const {
  const FullestRank fullest(c.device, rows.fullest);
  Tensor dx = backward_of(c, rows, std::move(dy), saved, dweights);
  if (!saved.scales) return dx;
  const Tensor x = std::exchange(saved.unscaled, Tensor()), weights = std::exchange(saved.scales, Tensor());
  dweights = c.device.empty(weights.shape(), DType::f32, Category::activations, "gradient of rows' weights");
  run(c.device, ops::ScaleRowsGrad{dx, x, weights, dx, dweights});
  return dx;
}

Tensor Experts::forward_of(Context& c, const ExpertRows& rows, Tensor x, Tensor weights, Saved& saved) const {
  saved.weights = std::move(weights);
  if (fp8_1_) return forward_in_fp8(c, rows, std::move(x), saved);
  c.stash.settle();
  const std::int64_t n = x.shape()[0];
  const auto first = [&] {
    const Tensor wide = c.activation({n, fc1_->local[1]}, "experts' first GEMM");
    multiply(c, Gemm::forward, x, *fc1_, wide, rows);
    if (adapter_1_) saved.low_1 = adapter_1_->forward(c, rows, x, wide);
    if (fc1_->trains || adapter_1_) saved.x = x;
    x.reset();
    add_bias(c, rows, fc1_bias_, wide, Tensor(), 1);
    return wide;
  };
  saved.wide = fc1_piece_.forward(c, saved.fc1_group, first, [&](const auto& keep) { keep(saved.x); });
  saved.narrow = activate_once(c, saved);
  const Tensor y = c.activation({n, fc2_->local[1]}, "experts' output");
  multiply(c, Gemm::forward, saved.narrow, *fc2_, y, rows);
  if (adapter_2_) saved.low_2 = adapter_2_->forward(c, rows, saved.narrow, y);
  add_bias(c, rows, fc2_bias_, y, saved.weights, share_of_bias_);
  if (activation_checkpoint_.drop(saved.narrow)) saved.unweighted.reset();
  saved.stashed = stash(c, rows, saved);
  return y;
}

int Experts::stash(Context& c, const ExpertRows& rows, const Saved& saved) const {
  const std::int64_t used = rows.each > 0 ? rows.each * count() : rows.offsets.back();
  std::vector<PagedStash::Kept> kept;
  for (const Tensor* t : {&saved.x, &saved.wide, &saved.narrow, &saved.unweighted, &saved.low_1, &saved.low_2,
                          &saved.fp8_x.together.codes, &saved.fp8_narrow.together.codes})
    kept.push_back({*t, used});
  for (const Fp8Inputs* inputs : {&saved.fp8_x, &saved.fp8_narrow})
    if (const Tensor& scales = inputs->together.scales)
      kept.push_back({scales, count() * inputs->each.front().inverse.numel() / scales.shape()[1]});
  return c.stash.keep(c.device, kept);
}

Tensor Experts::backward_of(Context& c, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const {
  if (fp8_1_) return backward_in_fp8(c, rows, std::move(dy), saved, dweights);
  c.offload.bring_back(c.device, saved.activation_group);
  c.stash.bring_back(c.device, saved.stashed);
  Tensor dwide, of_bias = bias_gradients(c, rows, dy, saved);
  {
    Tensor narrow = activated_again(c, saved);
    Tensor dnarrow = c.activation(narrow.shape(), "gradient of the activation");
    multiply(c, Gemm::input_gradient, dnarrow, *fc2_, dy, rows);
    if (adapter_2_) adapter_2_->backward(c, rows, dy, narrow, std::exchange(saved.low_2, Tensor()), dnarrow);
    c.weight_gradient([this, &c, rows, narrow, dy] { add_gradient_by_expert(c, narrow, *fc2_, dy, rows); });
    narrow.reset();
    dy.reset();
    dwide = gradient_of_wide(c, rows, std::move(dnarrow), saved, of_bias, dweights);
  }
  c.offload.bring_back(c.device, saved.fc1_group);
  const Tensor dx = c.activation({dwide.shape()[0], fc1_->local[2]}, "gradient of the experts' input");
  multiply(c, Gemm::input_gradient, dx, *fc1_, dwide, rows);
  if (adapter_1_) adapter_1_->backward(c, rows, dwide, saved.x, std::exchange(saved.low_1, Tensor()), dx);
  c.weight_gradient([this, &c, rows, x = saved.x, dwide] { add_gradient_by_expert(c, x, *fc1_, dwide, rows); });
  saved.x.reset();
  c.stash.fetch_next(c.device);
  return dx;
}

namespace {

// The rows that GEMMs in FP8 have. Where the host knows no rows, in a simulation, all experts have the mean, in the blocks that scales are of.
ExpertRows rows_in_fp8(const Context& c, const ExpertRows& rows, std::int64_t experts) {
  if (rows.each > 0) return rows;
  check(!c.device.real(), "experts", "rows in FP8 by the data, need as many of each expert");
  constexpr std::int64_t kBlock = ops::QuantiseBlocks::kMxBlock, kLeast = ops::Fp8Matmul::kMultiple;
  const std::int64_t mean = rows.offsets.back() / experts;
  ExpertRows equal;
  equal.each = mean < kBlock ? kLeast : mean / kBlock * kBlock;
  equal.deviation = rows.deviation, equal.fullest = rows.fullest;
  return equal;
}

// f(expert) of each: where the framework's module takes experts in groups (Transformer Engine's split_quantize and general_grouped_gemm),
// by one call of its own.
template <class F>
void in_one_call(Context& c, std::int64_t experts, const F& f) {
  std::optional<OneCall> one;
  if (c.keeps().grouped_experts) one.emplace(c.device, experts);
  for (std::int64_t e = 0; e < experts; ++e) f(e);
}

// What each expert multiplies with; quantised by a call each, where they are not kept.
std::vector<ops::Fp8Operand> weights_in_fp8(Context& c, const Fp8Gemms& gemms, const Tensor& w, Fp8Ways ways) {
  const Shape one{w.shape()[1], w.shape()[2]};
  std::vector<ops::Fp8Operand> made;
  for (std::int64_t e = 0; e < w.shape()[0]; ++e) {
    Fp8Tensor weight = gemms.weight(c, w.slice(e, 1).view(one), ways, e);
    made.push_back(std::move(ways == Fp8Ways::straight ? weight.straight : weight.transposed));
  }
  return made;
}

// y = x W^T of every expert, [rows of all, width]; returns the inputs as backward wants them, if it is to keep them. Where x has more rows
// than are in use, so has what is kept, as Transformer Engine's grouped tensors have.
Experts::Fp8Inputs multiply_in_fp8(Context& c, const Fp8Gemms& gemms, const Tensor& x, const Tensor& w, const Tensor& y,
                                   const ExpertRows& all, bool keep) {
  const std::int64_t experts = w.shape()[0], rows = all.each;
  const bool together = keep && c.expert_room() > 0;
  charge_expert_gemms(c, w);
  std::vector<ops::Fp8Operand> in;
  Experts::Fp8Inputs kept;
  if (together) kept.together = gemms.inputs_together(c, x.shape()[0], x.shape()[1], experts);
  in_one_call(c, experts, [&](std::int64_t e) {
    const Tensor own = x.slice(e * rows, rows);
    Fp8Tensor q = together ? gemms.input_in(c, own, kept.together, e)
                           : gemms.input(c, own, keep ? Fp8Ways::both : Fp8Ways::straight);
    in.push_back(std::move(q.straight));
    if (keep) kept.each.push_back(std::move(q.transposed));
  });
  const std::vector<ops::Fp8Operand> weights = weights_in_fp8(c, gemms, w, Fp8Ways::straight);
  const VaryingRows varying(c.device, all.deviation);
  in_one_call(c, experts, [&](std::int64_t e) {
    const auto i = static_cast<std::size_t>(e);
    Fp8Gemms::multiply(c, std::exchange(in[i], {}), weights[i], y.slice(e * rows, rows));
  });
  return kept;
}

// So that the memory of each goes with its product.
std::vector<ops::Fp8Operand> take(Experts::Fp8Inputs& kept) {
  kept.together = {};
  return std::exchange(kept.each, {});
}

// Inputs that were not kept, as backward wants them.
std::vector<ops::Fp8Operand> quantised_again(Context& c, const Fp8Gemms& gemms, const Tensor& x, std::int64_t rows) {
  std::vector<ops::Fp8Operand> made;
  in_one_call(c, x.shape()[0] / rows, [&](std::int64_t e) {
    made.push_back(gemms.input(c, x.slice(e * rows, rows), Fp8Ways::transposed).transposed);
  });
  return made;
}

// The weights' gradients of every expert, of the transposed sides of dy and of the inputs; each is given back when it is used.
void add_gradients_in_fp8(Context& c, WeightGradient& made, std::vector<ops::Fp8Operand> dy,
                          std::vector<ops::Fp8Operand> inputs) {
  const Shape& w = made.target().shape();
  in_one_call(c, w[0], [&](std::int64_t e) {
    const auto i = static_cast<std::size_t>(e);
    Fp8Gemms::multiply(c, std::exchange(dy[i], {}), std::exchange(inputs[i], {}),
                       made.target().slice(e, 1).view({w[1], w[2]}), made.beta());
  });
  made.finish();
}

// The gradients of that: dx, and the weights' where they train.
void gradients_in_fp8(Context& c, const Fp8Gemms& gemms, const Tensor& dy, Parameter& parameter,
                      std::vector<ops::Fp8Operand> inputs, const Tensor& dx, const ExpertRows& all) {
  const Tensor& w = parameter.value;
  const std::int64_t experts = w.shape()[0], rows = all.each;
  const bool trains = parameter.trains;
  std::optional<WeightGradient> made;
  if (trains && !c.later) made.emplace(c, parameter, parameter.gradient);
  charge_expert_gemms(c, w, made ? 2 : 1);
  std::vector<Fp8Tensor> out;
  in_one_call(c, experts, [&](std::int64_t e) {
    out.push_back(gemms.gradient(c, dy.slice(e * rows, rows), trains ? Fp8Ways::both : Fp8Ways::straight));
  });
  const std::vector<ops::Fp8Operand> weights = weights_in_fp8(c, gemms, w, Fp8Ways::transposed);
  {
    const VaryingRows varying(c.device, all.deviation);
    in_one_call(c, experts, [&](std::int64_t e) {
      const auto i = static_cast<std::size_t>(e);
      Fp8Gemms::multiply(c, std::exchange(out[i].straight, {}), weights[i], dx.slice(e * rows, rows));
    });
  }
  if (!trains) return;
  std::vector<ops::Fp8Operand> sides;
  for (Fp8Tensor& each : out) sides.push_back(std::exchange(each.transposed, {}));
  if (made) return add_gradients_in_fp8(c, *made, std::move(sides), std::move(inputs));
  c.leave([&c, &parameter, rows_of_fullest = all.fullest, sides = std::move(sides), inputs = std::move(inputs)] {
    const FullestRank fullest(c.device, rows_of_fullest);
    charge_expert_gemms(c, parameter.value);
    WeightGradient all(c, parameter, parameter.gradient);
    add_gradients_in_fp8(c, all, sides, inputs);
  });
}

}  // namespace

Tensor Experts::forward_in_fp8(Context& c, const ExpertRows& rows, Tensor x, Saved& saved) const {
  c.stash.settle();
  const ExpertRows all = rows_in_fp8(c, rows, count());
  const std::int64_t n = x.shape()[0];
  const auto first = [&] {
    const Tensor wide = c.activation({n, fc1_->local[1]}, "experts' first GEMM");
    saved.fp8_x = multiply_in_fp8(c, *fp8_1_, x, fc1_->value, wide, all, fc1_->trains);
    if (adapter_1_) saved.low_1 = adapter_1_->forward(c, all, x, wide), saved.x = x;
    x.reset();
    add_bias(c, all, fc1_bias_, wide, Tensor(), 1);
    return wide;
  };
  saved.wide = fc1_piece_.forward(c, saved.fc1_group, first, [&](const auto& keep) {
    if (saved.x) keep(saved.x);
  });
  Tensor narrow = activate_once(c, saved);
  const Tensor y = c.activation({n, fc2_->local[1]}, "experts' output");
  const bool keeps = fc2_->trains && !activation_checkpoint_.dropped();
  saved.fp8_narrow = multiply_in_fp8(c, *fp8_2_, narrow, fc2_->value, y, all, keeps);
  if (adapter_2_) saved.low_2 = adapter_2_->forward(c, all, narrow, y);
  add_bias(c, all, fc2_bias_, y, saved.weights, share_of_bias_);
  if (activation_checkpoint_.drop(narrow)) saved.unweighted.reset();
  if (adapter_2_) saved.narrow = narrow;
  narrow.reset();
  saved.stashed = stash(c, all, saved);
  return y;
}

Tensor Experts::backward_in_fp8(Context& c, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const {
  const ExpertRows all = rows_in_fp8(c, rows, count());
  const std::int64_t n = dy.shape()[0];
  c.offload.bring_back(c.device, saved.activation_group);
  c.stash.bring_back(c.device, saved.stashed);
  Tensor dwide, of_bias = bias_gradients(c, all, dy, saved);
  {
    Tensor narrow = activated_again(c, saved);
    if (narrow && fc2_->trains) saved.fp8_narrow.each = quantised_again(c, *fp8_2_, narrow, all.each);
    if (!adapter_2_) narrow.reset();
    Tensor dnarrow = c.activation({n, fc2_->local[2]}, "gradient of the activation");
    gradients_in_fp8(c, *fp8_2_, dy, *fc2_, take(saved.fp8_narrow), dnarrow, all);
    if (adapter_2_) adapter_2_->backward(c, all, dy, narrow, std::exchange(saved.low_2, Tensor()), dnarrow);
    narrow.reset();
    dy.reset();
    dwide = gradient_of_wide(c, all, std::move(dnarrow), saved, of_bias, dweights);
  }
  c.offload.bring_back(c.device, saved.fc1_group);
  const Tensor dx = c.activation({n, fc1_->local[2]}, "gradient of the experts' input");
  gradients_in_fp8(c, *fp8_1_, dwide, *fc1_, take(saved.fp8_x), dx, all);
  const Tensor x = std::exchange(saved.x, Tensor());
  if (adapter_1_) adapter_1_->backward(c, all, dwide, x, std::exchange(saved.low_1, Tensor()), dx);
  c.stash.fetch_next(c.device);
  return dx;
}

}  // namespace mbench::nn
