#include "engine/nn/layers/short_conv.h"

#include <utility>

#include "engine/nn/layers/norm.h"
#include "engine/nn/runtime/column_groups.h"
#include "engine/ops/run.h"
#include "engine/ops/short_conv.h"

namespace mbench::nn {
namespace {

// Taps of channels, which are cut as the first projection's rows are.
Parameter* add_taps(ParameterStore& store, const Plan& plan, const ShortConvSpec& spec) {
  const LinearPlan& linear = plan.role(spec.in.role);
  return store.add(weight_of(spec.conv), linear.weight, linear.consumed.value, linear.gemm.value);
}

}  // namespace

ShortConv::ShortConv(ParameterStore& store, const Plan& plan, const ShortConvSpec& spec, Regions drop)
    : width_(spec.width), in_(store, plan, spec.in), conv_(add_taps(store, plan, spec)), out_(store, plan, spec.out) {
  in_.in_layer(store, plan, drop.has(Region::norm));
  out_.in_layer(store, plan);
}

Tensor ShortConv::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  saved.made = in_groups(in_.forward_with_bias(c, std::move(x), saved.in_linear), 3 * width_);
  const Shape& s = saved.made.shape();
  const Tensor y = c.activation({s[0], s[1], s[2], width_}, "gated convolution");
  run(c.device, ops::ShortConv{saved.made, conv_->value, y});
  return out_.forward(c, ungrouped(y), saved.out_linear);
}

Tensor ShortConv::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  if (conv_->trains) zero_if_stale(c.device, *conv_);
  Tensor d = in_groups(out_.backward(c, std::move(dy), saved.out_linear), width_);
  const Tensor dmade = c.activation(saved.made.shape(), "gradient of B, C and x");
  run(c.device, ops::ShortConvGrad{d, saved.made, conv_->value, dmade, gradient_of(conv_)});
  d.reset();
  saved.made.reset();
  return in_.backward(c, ungrouped(dmade), saved.in_linear);
}

}  // namespace mbench::nn
