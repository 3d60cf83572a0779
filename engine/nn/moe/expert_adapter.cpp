#include "engine/nn/moe/expert_adapter.h"

#include "engine/ops/add.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/plan/adapter_placement.h"
#include "engine/point/adapter_weights.h"

namespace mbench::nn {
namespace {

// What the experts make, or its gradient, is split over etp or partial there where their weights are cut.
Parameter* add(ParameterStore& store, const Plan& plan, const WeightSpec& weight) {
  const Spread& layer = plan.role(weight.role).weight;
  Spread outputs = kTokensOfExperts;
  if (layer[Axis::etp].sharded()) outputs.set(Axis::etp, shard(1));
  return store.add(weight, adapter_placement(layer, weight), kTokensOfExperts, outputs);
}

void scale(Context& c, const Tensor& t, float factor) {
  if (factor != 1) run(c.device, ops::Scale{t, t, factor});
}

// Adds a GEMM to `to`, by its own or by a framework's further op.
template <class Multiply>
void add_product(Context& c, const Tensor& to, Multiply&& multiply) {
  if (c.keeps().fused_epilogues) return multiply(to, 1.0f);
  const Tensor made = c.activation(to.shape(), "output of experts' adapters");
  multiply(made, 0.0f);
  run(c.device, ops::Add{to, made, to});
}

}  // namespace

ExpertAdapter::ExpertAdapter(ParameterStore& store, const Plan& plan, const LinearSpec& spec)
    : a_(add(store, plan, adapter_a(plan.adapter, spec))),
      b_(add(store, plan, adapter_b(plan.adapter, spec))),
      scale_(plan.adapter.scale()) {}

Tensor ExpertAdapter::forward(Context& c, const ExpertRows& rows, const Tensor& x, const Tensor& y) const {
  const Tensor low = c.activation({x.shape()[0], a_->local[1]}, "low-rank activation of experts' adapters");
  multiply_by_expert(c, ExpertGemm::forward, x, a_->value, low, rows);
  scale(c, low, scale_);
  add_product(c, y, [&](const Tensor& to, float beta) {
    multiply_by_expert(c, ExpertGemm::forward, low, b_->value, to, rows, beta);
  });
  return low;
}

void ExpertAdapter::backward(Context& c, const ExpertRows& rows, const Tensor& dy, const Tensor& x, const Tensor& low,
                             const Tensor& dx) const {
  const Tensor dlow = c.activation(low.shape(), "gradient of experts' low-rank activation");
  multiply_by_expert(c, ExpertGemm::input_gradient, dlow, b_->value, dy, rows);
  scale(c, dlow, scale_);
  add_gradient_by_expert(c, low, *b_, dy, rows);
  add_gradient_by_expert(c, x, *a_, dlow, rows);
  add_product(c, dx, [&](const Tensor& to, float beta) {
    multiply_by_expert(c, ExpertGemm::input_gradient, to, a_->value, dlow, rows, beta);
  });
}

}  // namespace mbench::nn
