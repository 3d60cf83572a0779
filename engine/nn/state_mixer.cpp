#include "engine/nn/state_mixer.h"

#include <utility>

#include "engine/ops/causal_conv.h"
#include "engine/ops/gated_norm.h"
#include "engine/ops/run.h"

namespace mbench {
namespace {

// Weights that act on what the first projection makes. One that is cut lies as the projection's rows do.
Parameter* add(ParameterStore& store, const Plan& plan, const StateMixerSpec& spec, const WeightSpec& weight) {
  const LinearPlan& linear = plan.role(spec.in.role);
  return store.add(weight, weight.role == Role::whole ? Spread() : linear.weight, linear.consumed.value,
                   linear.gemm.value);
}

Tensor by_group(const Tensor& t, std::int64_t width) {
  const Shape& s = t.shape();
  return t.view({s[0], s[1], s[2] / width, width});
}

Tensor flat(const Tensor& t) {
  const Shape& s = t.shape();
  return t.view({s[0], s[1], s[2] * s[3]});
}

Tensor gradient_of(const Parameter* parameter) {
  return parameter != nullptr ? parameter->gradient : Tensor();
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
      gamma_(add(store, plan, spec, weight_of(spec.gamma))),
      out_(store, plan, spec.out) {
  in_.in_layer(store, plan, drop.has(Region::norm));
  out_.in_layer(store, plan);
}

Tensor StateMixer::convolve(Context& c, const Tensor& in) const {
  const Shape& s = in.shape();
  const Tensor y = c.activation({s[0], s[1], s[2], spec_.conv_channels()}, "convolved inputs, B and C");
  run(c.device,
      ops::CausalConv{in, conv_->value, conv_bias_ != nullptr ? conv_bias_->value : Tensor(), y, spec_.group_width()});
  return y;
}

ops::ScanShape StateMixer::scan_of(const Tensor& in, const Tensor& convolved) const {
  ops::ScanShape s{convolved, in, a_log_->value, dt_bias_->value};
  if (d_ != nullptr) s.d = d_->value;
  s.head_dim = spec_.head_dim, s.state_dim = spec_.state_dim, s.chunk = spec_.chunk;
  s.first = spec_.group_width() + spec_.conv_channels();
  return s;
}

ops::StateScan StateMixer::scan(Context& c, const Tensor& in, const Tensor& convolved, const Tensor& y) const {
  ops::StateScan op{scan_of(in, convolved)};
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

ops::DeltaScan StateMixer::delta_scan(Context& c, const Tensor& in, const Tensor& convolved, const Tensor& y) const {
  ops::DeltaScan op{scan_of(in, convolved)};
  op.states = c.device.empty(op.shape.states(), DType::f32, Category::activations, "states of chunks");
  op.y = y;
  run(c.device, op);
  return op;
}

Tensor StateMixer::scan_back(Context& c, const Tensor& dy, const Tensor& in, const Tensor& din) const {
  const Tensor convolved = convolve(c, in);
  const Tensor dconvolved = c.activation(convolved.shape(), "gradient of convolved inputs, B and C");
  if (!mamba()) {
    // Its outputs come with the states, and are of no use.
    const ops::DeltaScan again =
        delta_scan(c, in, convolved, c.activation(dy.shape(), "scan output made again with its states"));
    run(c.device,
        ops::DeltaScanGrad{again.shape, dy, again.states, dconvolved, din, gradient_of(a_log_), gradient_of(dt_bias_)});
    return dconvolved;
  }
  const ops::StateScan again = scan(c, in, convolved, Tensor());
  ops::StateScanGrad grad{again.shape, dy, again.steps, again.sums, again.states};
  grad.dstates =
      c.device.empty(again.states.shape(), DType::f32, Category::activations, "gradients of states of chunks");
  grad.dxbc = dconvolved, grad.din = din;
  grad.da_log = gradient_of(a_log_), grad.ddt_bias = gradient_of(dt_bias_), grad.dd = gradient_of(d_);
  run(c.device, grad);
  return dconvolved;
}

Tensor StateMixer::normed(Context& c, Saved& saved) const {
  const Tensor y = c.activation(saved.y.shape(), "gated norm");
  saved.rstd = c.device.empty({saved.y.numel() / norm_width()}, DType::f32, Category::activations, "norm rstd");
  run(c.device, ops::GatedNorm{saved.y, saved.in, gamma_->value, y, saved.rstd, norm_width(), mamba(), spec_.norm_eps});
  return y;
}

Tensor StateMixer::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  saved.in = by_group(in_.forward_with_bias(c, std::move(x), saved.in_linear), spec_.in_width());
  {
    const Tensor convolved = convolve(c, saved.in);
    const Shape& s = saved.in.shape();
    saved.y = c.activation({s[0], s[1], s[2], spec_.group_width()}, "scan output");
    if (mamba())
      scan(c, saved.in, convolved, saved.y);
    else
      delta_scan(c, saved.in, convolved, saved.y);
  }
  return out_.forward(c, flat(normed(c, saved)), saved.out_linear);
}

Tensor StateMixer::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  if (conv_->trains) zero_if_stale(c.device, *conv_);
  Tensor d = by_group(out_.backward(c, std::move(dy), saved.out_linear), spec_.group_width());
  const Tensor din = c.activation(saved.in.shape(), "gradient of gates, inputs, B, C and steps");
  run(c.device, ops::GatedNormGrad{d, saved.y, saved.in, gamma_->value, saved.rstd, d, din, gradient_of(gamma_),
                                   norm_width(), mamba()});
  saved.y.reset(), saved.rstd.reset();
  d = scan_back(c, d, saved.in, din);
  run(c.device, ops::CausalConvGrad{d, saved.in, conv_->value, conv_bias_ != nullptr ? conv_bias_->value : Tensor(),
                                    din, gradient_of(conv_), gradient_of(conv_bias_), spec_.group_width()});
  d.reset();
  saved.in.reset();
  return in_.backward(c, flat(din), saved.in_linear);
}

}  // namespace mbench
