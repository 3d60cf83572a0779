#include "engine/nn/moe/router.h"

#include <utility>

#include "engine/nn/layers/residual.h"
#include "engine/ops/copy.h"
#include "engine/ops/route.h"
#include "engine/ops/router_correction.h"
#include "engine/ops/run.h"

namespace mbench::nn {
ops::RouterRule router_rule(const RoutingSpec& spec, const RouterMode& mode) {
  ops::RouterRule rule;
  rule.score = spec.score == RouterScore::softmax ? ops::RouterScore::softmax : ops::RouterScore::sigmoid;
  rule.renormalise = spec.normalise;
  rule.scale = static_cast<float>(spec.scale);
  rule.groups = spec.groups;
  rule.chosen_groups = spec.chosen_groups;
  rule.group_score = spec.group_score == GroupScore::best ? ops::GroupScore::best : ops::GroupScore::best_two;
  rule.balanced = mode.routing == Routing::balanced;
  rule.local = mode.local;
  return rule;
}

Axes sequence_axes(const Spread& value, const Mesh& mesh) {
  Axes axes;
  for (const Axis axis : kDenseAxes.list())
    if (value[axis].sharded(0)) axes.add(axis);
  return mesh.real(axes);
}

Router::Router(ParameterStore& store, const Plan& plan, const MoeSpec& spec)
    : rule_(router_rule(spec.routing, plan.router)),
      losses_{static_cast<float>(spec.routing.balance_loss), static_cast<float>(spec.routing.z_loss), 1},
      active_(spec.active),
      cut_(sequence_axes(plan.hidden.value, plan.mesh)),
      linear_(store, plan, spec.router) {
  if (spec.routing.correction_speed == 0 || rule_.balanced) return;
  speed_ = static_cast<float>(spec.routing.correction_speed);
  correction_ = store.add_state({spec.experts}, "correction of the router's scores");
  load_ = store.add_state({spec.experts}, "tokens of experts");
}

Tensor Router::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  saved.logits = linear_.forward_with_bias(c, x, saved.linear);
  const Shape& s = saved.logits.shape();
  const Shape chosen = {s[0], s[1], active_};
  saved.experts = c.device.empty(chosen, DType::i64, Category::activations, "chosen experts");
  const Tensor weights = c.device.empty(chosen, DType::f32, Category::activations, "weights of experts");
  run(c.device, ops::Route{saved.logits, correction_, rule_, hidden_map(c, batch), saved.experts, weights});
  return weights;
}

void Router::count(Context& c, const Load& load, Saved& saved) const {
  comm::Group& together = c.groups.over(load.along);
  if (together.size() > 1) together.run(comm::AllReduce{load.counts});
  const std::int64_t tokens = load.tokens * together.size();
  if (losses_.balance > 0 || losses_.z > 0) saved.counts = load.counts, saved.counted = tokens;
  if (!correction_) return;
  // A step that is run again counts anew.
  if (c.rerun && !std::exchange(counted_in_rerun_, true)) {
    run(c.device, ops::Fill{load_, 0});
    counted_ = 0;
  }
  run(c.device, ops::AddCounts{load.counts, load_});
  counted_ += tokens;
}

void Router::after_step(Context& c) const {
  if (!correction_) return;
  counted_in_rerun_ = false;
  comm::Group& replicas = c.groups.over(kBatchAxes);
  replicas.run(comm::AllReduce{load_});
  const std::int64_t pairs = std::exchange(counted_, 0) * replicas.size() * active_;
  const auto mean = static_cast<double>(pairs) / static_cast<double>(load_.numel());
  run(c.device, ops::MoveCorrection{load_, correction_, static_cast<float>(mean), speed_});
}

Tensor Router::backward(Context& c, const MicroBatch& batch, const Tensor& dweights, Saved& saved) const {
  ops::RouterLosses losses = losses_;
  losses.tokens = saved.logits.shape().rows() * c.groups.over(cut_).size();
  // The loss is linear in the counts.
  if (saved.counted > 0) losses.balance *= static_cast<float>(losses.tokens) / static_cast<float>(saved.counted);
  if (c.router_losses && (losses.balance > 0 || losses.z > 0))
    run(c.device, ops::RouterLoss{saved.logits, saved.counts, active_, rule_.score, losses, c.router_losses});
  losses.balance *= batch.gradient_scale;
  losses.z *= batch.gradient_scale;
  run(c.device, ops::RouteGrad{dweights, saved.logits, saved.experts, rule_, losses, saved.counts, saved.logits});
  saved.experts.reset();
  saved.counts.reset();
  return linear_.backward(c, std::exchange(saved.logits, Tensor()), saved.linear);
}

}  // namespace mbench::nn
