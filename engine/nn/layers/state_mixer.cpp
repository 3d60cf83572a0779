#include "engine/nn/layers/state_mixer.h"

#include <utility>

#include "engine/nn/layers/norm.h"
#include "engine/nn/runtime/column_groups.h"
#include "engine/ops/causal_conv.h"
#include "engine/ops/column_gate.h"
#include "engine/ops/copy.h"
#include "engine/ops/gated_norm.h"
#include "engine/ops/run.h"
#include "engine/ops/scale_columns.h"

namespace mbench::nn {
namespace {

// Weights that act on what the first projection makes. One that is cut lies as the projection's rows do.
Parameter* add(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, const WeightSpec& weight) {
  const LinearPlan& linear = plan.role(spec.in.role);
  return store.add(weight, weight.role == Role::whole ? Spread() : linear.weight, linear.consumed.value,
                   linear.gemm.value);
}

}  // namespace

StateMixer::StateMixer(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, Regions drop)
    : spec_(spec),
      in_(store, plan, spec.in),
      conv_(add(store, plan, spec, weight_of(spec.conv))),
      conv_bias_(spec.conv_bias ? add(store, plan, spec, weight_of(*spec.conv_bias)) : nullptr),
      a_log_(add(store, plan, spec, weight_of(spec.a_log))),
      dt_bias_(add(store, plan, spec, weight_of(spec.dt_bias))),
      d_(spec.d ? add(store, plan, spec, weight_of(*spec.d)) : nullptr),
      gamma_(spec.norm == StateNorm::none ? nullptr : add(store, plan, spec, weight_of(spec.gamma))),
      out_(store, plan, spec.out) {
  in_.in_layer(store, plan, drop.has(Region::norm));
  out_.in_layer(store, plan);
}

StateMixer::OfHeads StateMixer::weights_of(Context& c, const ScanShare& share) const {
  return {share.channels_of(c, conv_->value), share.channels_of(c, value_of(conv_bias_)), share.heads(a_log_->value),
          share.heads(dt_bias_->value), share.heads(value_of(d_))};
}

StateMixer::OfHeads StateMixer::gradients_of(Context& c, const ScanShare& share) const {
  return {share.gradient_of_channels(c, gradient_of(conv_)), share.gradient_of_channels(c, gradient_of(conv_bias_)),
          share.heads(gradient_of(a_log_)), share.heads(gradient_of(dt_bias_)), share.heads(gradient_of(d_))};
}

StateMixer::Inputs StateMixer::convolve(Context& c, const ScanShare& share, const Tensor& made) const {
  const Shape& s = made.shape();
  Inputs in{share, made, c.activation({s[0], s[1], s[2], share.channels()}, "convolved inputs, B and C"),
            weights_of(c, share)};
  run(c.device, ops::CausalConv{made, in.weights.conv, in.weights.conv_bias, in.convolved, share.first()});
  return in;
}

ops::ScanShape StateMixer::scan_of(const Inputs& in) const {
  ops::ScanShape s{in.convolved, in.made, in.weights.a_log, in.weights.dt_bias, in.weights.d};
  s.head_dim = spec_.head_dim, s.state_dim = spec_.state_dim, s.chunk = spec_.chunk;
  s.first = in.share.first() + in.share.channels();
  s.beta_scale = spec_.beta_scale;
  return s;
}

Shape StateMixer::output_of(const Inputs& in) const {
  const Shape& s = in.made.shape();
  return {s[0], s[1], s[2], in.share.group_width()};
}

ops::StateScan StateMixer::scan(Context& c, const Inputs& in, const Tensor& y) const {
  ops::StateScan op{scan_of(in)};
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

ops::DeltaScan StateMixer::delta_scan(Context& c, const Inputs& in, const Tensor& y) const {
  ops::DeltaScan op{scan_of(in)};
  op.states = c.device.empty(op.shape.states(), DType::f32, Category::activations, "states of chunks");
  op.y = y;
  run(c.device, op);
  return op;
}

Tensor StateMixer::scan_back(Context& c, const Tensor& dy, const Inputs& in, const OfHeads& gradients,
                             const Tensor& dmade) const {
  const Tensor dconvolved = c.activation(in.convolved.shape(), "gradient of convolved inputs, B and C");
  if (!mamba()) {
    // Its outputs come with the states, and are of no use.
    const ops::DeltaScan again = delta_scan(c, in, c.activation(dy.shape(), "scan output made again with its states"));
    run(c.device,
        ops::DeltaScanGrad{again.shape, dy, again.states, dconvolved, dmade, gradients.a_log, gradients.dt_bias});
    return dconvolved;
  }
  const ops::StateScan again = scan(c, in, Tensor());
  ops::StateScanGrad grad{again.shape, dy, again.steps, again.sums, again.states};
  grad.dstates =
      c.device.empty(again.states.shape(), DType::f32, Category::activations, "gradients of states of chunks");
  grad.dxbc = dconvolved, grad.din = dmade;
  grad.da_log = gradients.a_log, grad.ddt_bias = gradients.dt_bias, grad.dd = gradients.d;
  run(c.device, grad);
  return dconvolved;
}

void StateMixer::multiply(Context& c, const Tensor& in) const {
  if (spec_.factors == StateMixerSpec().factors) return;
  ops::ColumnFactors columns;
  const std::int64_t parts[] = {spec_.group_width(), spec_.group_width(), spec_.state_dim, spec_.state_dim,
                                spec_.group()};
  std::int64_t end = 0;
  for (std::size_t i = 0; i < columns.ends.size(); ++i) columns.ends[i] = end += parts[i];
  columns.factors = spec_.factors;
  run(c.device, ops::ScaleColumns{in, in, columns});
}

Tensor StateMixer::normed(Context& c, Saved& saved) const {
  if (spec_.norm == StateNorm::none) {
    const Tensor y = c.activation(saved.y.shape(), "gated scan output");
    run(c.device, ops::ColumnGate{saved.y, saved.gates, y, 0, true});
    return y;
  }
  if (gates_first() && c.keeps().gated_scan) {
    saved.gated = c.activation(saved.y.shape(), "scan output times gates");
    run(c.device, ops::Copy{saved.y, saved.gated});
  }
  const Tensor y = c.activation(saved.y.shape(), "gated norm");
  saved.rstd = c.device.empty({saved.y.numel() / norm_width()}, DType::f32, Category::activations, "norm rstd");
  run(c.device,
      ops::GatedNorm{saved.y, saved.gates, gamma_->value, y, saved.rstd, norm_width(), gates_first(), spec_.norm_eps});
  return y;
}

Tensor StateMixer::normed_back(Context& c, const Tensor& dy, Saved& saved, const Tensor& din) const {
  if (spec_.norm == StateNorm::none)
    run(c.device, ops::ColumnGateGrad{dy, saved.y, saved.gates, dy, din, 0, true});
  else
    run(c.device, ops::GatedNormGrad{dy, saved.y, saved.gates, gamma_->value, saved.rstd, dy, din, gradient_of(gamma_),
                                     norm_width(), gates_first()});
  saved.y.reset(), saved.rstd.reset(), saved.gated.reset();
  return dy;
}

Tensor StateMixer::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  Tensor in = in_groups(in_.forward_with_bias(c, std::move(x), saved.in_linear), spec_.in_width());
  multiply(c, in);
  const ScanShare share(c, spec_, in.shape());
  saved.gates = share.whole() ? in : share.gates(c, in);
  saved.scanned = share.whole() ? in : share.to_heads(c, in);
  in.reset();
  {
    const Inputs inputs = convolve(c, share, saved.scanned);
    saved.y = c.activation(output_of(inputs), "scan output");
    if (mamba())
      scan(c, inputs, saved.y);
    else
      delta_scan(c, inputs, saved.y);
  }
  if (!share.whole()) saved.y = share.to_positions(c, saved.y);
  return out_.forward(c, ungrouped(normed(c, saved)), saved.out_linear);
}

Tensor StateMixer::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  if (conv_->trains) zero_if_stale(c.device, *conv_);
  Tensor d = in_groups(out_.backward(c, std::move(dy), saved.out_linear), spec_.group_width());
  Tensor din = c.activation(saved.gates.shape(), "gradient of gates, inputs, B, C and steps");
  d = normed_back(c, d, saved, din);
  const ScanShare share(c, spec_, saved.gates.shape());
  saved.gates.reset();
  if (!share.whole()) d = share.gradient_to_heads(c, d);
  {
    const Tensor dscanned =
        share.whole() ? din : c.activation(saved.scanned.shape(), "gradient of inputs, B, C and steps");
    const OfHeads gradients = gradients_of(c, share);
    const Inputs inputs = convolve(c, share, saved.scanned);
    d = scan_back(c, d, inputs, gradients, dscanned);
    run(c.device, ops::CausalConvGrad{d, saved.scanned, inputs.weights.conv, inputs.weights.conv_bias, dscanned,
                                      gradients.conv, gradients.conv_bias, share.first()});
    share.add_channels(c, gradients.conv, gradient_of(conv_));
    share.add_channels(c, gradients.conv_bias, gradient_of(conv_bias_));
    d.reset();
    saved.scanned.reset();
    if (!share.whole()) din = share.gradient_of_in(c, din, dscanned);
  }
  multiply(c, din);
  return in_.backward(c, ungrouped(din), saved.in_linear);
}

}  // namespace mbench::nn
