#include "engine/nn/layers/selective_mixer.h"

#include <utility>

#include "engine/nn/layers/norm.h"
#include "engine/nn/runtime/column_groups.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/causal_conv.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Weights of channels, which are cut as the first projection's rows are.
Parameter* add_of_channels(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec,
                           const WeightSpec& weight) {
  const LinearPlan& linear = plan.role(spec.in.role);
  return store.add(weight, linear.weight, linear.consumed.value, linear.gemm.value);
}

// Columns [first, first + count) of every row of a tensor, as one matrix.
ops::Matrix columns_at(const Tensor& t, std::int64_t first, std::int64_t count) {
  return {t, t.shape().rows(), count, t.shape().cols(), first};
}

}  // namespace

SelectiveMixer::SelectiveMixer(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, Regions drop)
    : spec_(spec),
      shared_(Transition::between(plan.role(spec.x->role).output, plan.role(spec.dt->role).consumed, plan.mesh)),
      in_(store, plan, spec.in),
      conv_(add_of_channels(store, plan, spec, weight_of(spec.conv))),
      conv_bias_(add_of_channels(store, plan, spec, weight_of(*spec.conv_bias))),
      x_(store, plan, *spec.x),
      dt_(store, plan, *spec.dt),
      a_log_(add_of_channels(store, plan, spec, weight_of(spec.a_log))),
      dt_bias_(add_of_channels(store, plan, spec, weight_of(spec.dt_bias))),
      d_(add_of_channels(store, plan, spec, weight_of(*spec.d))),
      out_(store, plan, spec.out) {
  const Spread& made = plan.role(spec.x->role).output.value;
  std::int64_t first = 0;
  for (const NormSpec& norm : spec.norms) {
    norms_.push_back({ColumnsNorm(store, norm, made, made), first, norm.width});
    first += norm.width;
  }
  in_.in_layer(store, plan, drop.has(Region::norm));
  out_.in_layer(store, plan);
}

Tensor SelectiveMixer::convolve(Context& c, const Tensor& made) const {
  const Shape& s = made.shape();
  const Tensor inputs = c.activation({s[0], s[1], s[2], spec_.group_width()}, "convolved inputs");
  run(c.device, ops::CausalConv{made, conv_->value, conv_bias_->value, inputs, spec_.group_width()});
  return inputs;
}

Tensor SelectiveMixer::normed(Context& c, const Tensor& packed, std::vector<Tensor>& rstds) const {
  if (norms_.empty()) return packed;
  const Tensor y = c.activation(packed.shape(), "normed steps, B and C");
  rstds.resize(norms_.size());
  for (std::size_t i = 0; i < norms_.size(); ++i)
    norms_[i].norm.forward(c, columns_at(packed, norms_[i].first, norms_[i].columns),
                           columns_at(y, norms_[i].first, norms_[i].columns), 1, rstds[i]);
  return y;
}

Tensor SelectiveMixer::steps(Context& c, const Tensor& normed, Saved& saved) const {
  const Shape& s = normed.shape();
  const Tensor low = c.activation({s[0], s[1], spec_.dt_rank}, "low-rank steps");
  run(c.device, ops::CopyBlocks{columns_at(normed, 0, spec_.dt_rank), ops::Matrix(low)});
  return dt_.forward(c, low, saved.dt_linear);
}

ops::SelectiveShape SelectiveMixer::shape_of(const Tensor& inputs, const Tensor& made, const Tensor& steps,
                                             const Tensor& normed) const {
  ops::SelectiveShape s{inputs, made, steps, normed, a_log_->value, dt_bias_->value, d_->value};
  s.state_dim = spec_.state_dim, s.chunk = spec_.chunk, s.first = spec_.dt_rank;
  return s;
}

ops::SelectiveScan SelectiveMixer::scan(Context& c, const ops::SelectiveShape& shape, const Tensor& y) const {
  ops::SelectiveScan op;
  op.shape = shape, op.y = y;
  op.states = c.device.empty(shape.states(), DType::f32, Category::activations, "states of chunks");
  run(c.device, op);
  return op;
}

Tensor SelectiveMixer::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  saved.made = in_groups(in_.forward_with_bias(c, std::move(x), saved.in_linear), spec_.in_width());
  Tensor y;
  {
    const Tensor inputs = convolve(c, saved.made);
    saved.packed = x_.forward(c, ungrouped(inputs), saved.x_linear);
    std::vector<Tensor> rstds;
    const Tensor all = normed(c, saved.packed, rstds);
    const Tensor raw = steps(c, all, saved);
    y = c.activation(inputs.shape(), "scan output");
    scan(c, shape_of(inputs, saved.made, raw, all), y);
  }
  saved.x_linear.forget_input();
  saved.dt_linear.forget_input();
  return out_.forward(c, ungrouped(y), saved.out_linear);
}

Tensor SelectiveMixer::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  if (conv_->trains) zero_if_stale(c.device, *conv_);
  Tensor d = in_groups(out_.backward(c, std::move(dy), saved.out_linear), spec_.group_width());
  const Tensor dmade = c.activation(saved.made.shape(), "gradient of gates and inputs");
  const Tensor inputs = convolve(c, saved.made);
  Tensor dpacked = c.activation(saved.packed.shape(), "gradient of steps, B and C"), dinputs;
  std::vector<Tensor> rstds;
  {
    const Tensor all = normed(c, saved.packed, rstds);
    const Tensor raw = steps(c, all, saved);
    const ops::SelectiveScan again = scan(c, shape_of(inputs, saved.made, raw, all), Tensor());
    ops::SelectiveScanGrad grad;
    grad.shape = again.shape, grad.dy = d, grad.states = again.states;
    grad.dstates =
        c.device.empty(again.states.shape(), DType::f32, Category::activations, "gradients of states of chunks");
    dinputs = grad.dx = c.activation(inputs.shape(), "gradient of convolved inputs");
    grad.din = dmade, grad.dbc = dpacked;
    grad.dsteps = c.activation(raw.shape(), "gradient of steps");
    grad.da_log = gradient_of(a_log_), grad.ddt_bias = gradient_of(dt_bias_), grad.dd = gradient_of(d_);
    run(c.device, grad);
    d.reset();
    const Tensor dlow = dt_.backward(c, std::move(grad.dsteps), saved.dt_linear);
    run(c.device, ops::CopyBlocks{ops::Matrix(dlow), columns_at(dpacked, 0, spec_.dt_rank)});
  }
  dpacked = communicate(c, shared_.backward, dpacked);
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const ops::Matrix part = columns_at(dpacked, norms_[i].first, norms_[i].columns);
    norms_[i].norm.backward(c, part, columns_at(saved.packed, norms_[i].first, norms_[i].columns), part, 1, rstds[i]);
  }
  saved.packed.reset();
  saved.x_linear.x = ungrouped(inputs);
  {
    const Tensor by_packed = x_.backward(c, std::move(dpacked), saved.x_linear);
    run(c.device, ops::Add{ungrouped(dinputs), by_packed, ungrouped(dinputs)});
  }
  run(c.device, ops::CausalConvGrad{dinputs, saved.made, conv_->value, conv_bias_->value, dmade, gradient_of(conv_),
                                    gradient_of(conv_bias_), spec_.group_width()});
  dinputs.reset();
  saved.made.reset();
  return in_.backward(c, ungrouped(dmade), saved.in_linear);
}

}  // namespace mbench::nn
