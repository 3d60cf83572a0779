#include "engine/nn/layers/lightning.h"

#include <utility>

#include "engine/nn/attention/attention_core.h"
#include "engine/nn/runtime/column_groups.h"
#include "engine/ops/causal_conv.h"
#include "engine/ops/column_gate.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

constexpr float kStepOfOne = 0.54132485f;  // softplus of it is 1

std::int64_t local_heads(const Plan& plan, const LightningSpec& spec) {
  return spec.heads / plan.mesh.size(axes_of_heads(plan, spec.in.role));
}

// One value for each of this rank's heads, or for all of them.
Tensor of_heads(ParameterStore& store, const Plan& plan, const LightningSpec& spec, const std::vector<float>& values,
                std::string_view what) {
  return store.add_constants({local_heads(plan, spec)}, values, what);
}

std::vector<float> local_slopes(ParameterStore& store, const Plan& plan, const LightningSpec& spec) {
  const std::int64_t heads = local_heads(plan, spec),
                     first = store.groups().over(axes_of_heads(plan, spec.in.role)).rank() * heads;
  return {spec.log_slopes.begin() + first, spec.log_slopes.begin() + first + heads};
}

}  // namespace

Lightning::Lightning(ParameterStore& store, const Plan& plan, const LightningSpec& spec, Regions drop)
    : dim_(spec.dim),
      chunk_(spec.chunk),
      in_(store, plan, spec.in),
      tap_(store.add_constants({3 * local_heads(plan, spec) * spec.dim, 1}, {1}, "tap of lightning attention")),
      log_slopes_(of_heads(store, plan, spec, local_slopes(store, plan, spec), "slopes of lightning attention")),
      step_(of_heads(store, plan, spec, {kStepOfOne}, "steps of lightning attention")),
      none_(of_heads(store, plan, spec, {0}, "inputs that lightning attention does not add")),
      norm_(store, spec.norm, axes_of_heads(plan, spec.in.role), plan.role(spec.in.role).consumed.value),
      out_(store, plan, spec.out) {
  in_.in_layer(store, plan, drop.has(Region::norm));
  out_.in_layer(store, plan);
}

Tensor Lightning::activated(Context& c, const Tensor& made) const {
  const Shape& s = made.shape();
  const Tensor y = c.activation({s[0], s[1], s[2], 3 * dim_}, "activated values, keys and queries");
  run(c.device, ops::CausalConv{made, tap_, Tensor(), y, dim_});
  return y;
}

ops::StateScan Lightning::scan(Context& c, const Tensor& activated, const Tensor& y) const {
  const Shape& s = activated.shape();
  const Tensor raw = c.activation({s[0], s[1], s[2], 1}, "raw steps of the scan");
  run(c.device, ops::Fill{raw, 0});
  ops::StateScan op{{activated, raw, log_slopes_, step_, none_}};
  op.shape.head_dim = op.shape.state_dim = dim_, op.shape.chunk = chunk_;
  const auto kept = [&](const Shape& shape, std::string_view what) {
    return c.device.empty(shape, DType::f32, Category::activations, what);
  };
  op.steps = kept(op.shape.steps(), "steps of the scan");
  op.sums = kept(op.shape.steps(), "sums of steps");
  op.states = kept(op.shape.states(), "states of chunks");
  op.y = y;
  run(c.device, op);
  return op;
}

Tensor Lightning::scan_back(Context& c, const Tensor& dy, const Tensor& activated) const {
  const ops::StateScan again = scan(c, activated, Tensor());
  ops::StateScanGrad grad{again.shape, dy, again.steps, again.sums, again.states};
  grad.dstates =
      c.device.empty(again.states.shape(), DType::f32, Category::activations, "gradients of states of chunks");
  grad.dxbc = c.activation(activated.shape(), "gradient of activated values, keys and queries");
  grad.din = c.activation(again.shape.in.shape(), "gradient of steps, which are fixed");
  run(c.device, grad);
  return grad.dxbc;
}

Tensor Lightning::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  saved.made = in_groups(in_.forward_with_bias(c, std::move(x), saved.in_linear), 4 * dim_);
  const Shape& s = saved.made.shape();
  const Shape heads{s[0], s[1], s[2], dim_};
  saved.y = c.activation(heads, "scan output");
  scan(c, activated(c, saved.made), saved.y);
  saved.normed = c.activation(heads, "normed scan output");
  norm_.forward(c, {saved.y, 0, dim_}, {saved.normed, 0, dim_}, saved.rstd);
  const Tensor gated = c.activation(heads, "gated scan output");
  run(c.device, ops::ColumnGate{saved.normed, saved.made, gated});
  return out_.forward(c, ungrouped(gated), saved.out_linear);
}

Tensor Lightning::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor d = in_groups(out_.backward(c, std::move(dy), saved.out_linear), dim_);
  const Tensor dmade = c.activation(saved.made.shape(), "gradient of gates, values, keys and queries");
  run(c.device, ops::ColumnGateGrad{d, saved.normed, saved.made, d, dmade});
  saved.normed.reset();
  norm_.backward(c, {d, 0, dim_}, {saved.y, 0, dim_}, saved.rstd);
  saved.y.reset();
  {
    const Tensor dactivated = scan_back(c, d, activated(c, saved.made));
    d.reset();
    run(c.device, ops::CausalConvGrad{dactivated, saved.made, tap_, Tensor(), dmade, Tensor(), Tensor(), dim_});
  }
  saved.made.reset();
  return in_.backward(c, ungrouped(dmade), saved.in_linear);
}

}  // namespace mbench::nn
