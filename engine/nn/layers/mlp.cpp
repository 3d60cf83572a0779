#include "engine/nn/layers/mlp.h"

#include "engine/ops/run.h"
#include "engine/ops/swiglu.h"

namespace mbench::nn {
namespace {

// They act on what the first layer makes, which is cut: their gradients are partial there.
Alphas alphas_of(ParameterStore& store, const Plan& plan, const MlpSpec& spec) {
  if (!spec.alpha_p) return {};
  const LinearPlan& linear = plan.role(spec.fc1.role);
  const auto add = [&](const VectorSpec& alpha) {
    return store.add(weight_of(alpha), Spread(), linear.consumed.value, linear.gemm.value);
  };
  return {add(*spec.alpha_p), add(*spec.alpha_n)};
}

}  // namespace

Mlp::Mlp(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Regions drop)
    : fc1_(store, plan, spec.fc1),
      activation_(spec.activation, alphas_of(store, plan, spec), spec.gate_factor),
      fc2_(store, plan, spec.fc2) {
  fc1_.in_layer(store, plan, drop.has(Region::norm), is_gated(spec.activation) ? 2 : 1);
  if (is_gated(spec.activation)) fc1_.stands_for(plan, {1, 1});
  const bool separate = drop.has(Region::alternate_gemms);
  fc2_.in_layer(store, plan, separate);
  if (separate) pairs_ = fc1_.local_outputs() / 2;
}

Tensor Mlp::half(Context& c, const Linear::Arrived& arrived, std::int64_t which) const {
  return fc1_.make(c, arrived, {.width = 2 * pairs_, .first = which, .count = pairs_, .step = 2});
}

Tensor Mlp::gated(Context& c, const Saved& saved) {
  const Tensor y = c.activation(saved.gate.shape(), "swiglu output");
  run(c.device, ops::SwiGlu{saved.gate, Tensor(), y, Tensor(), saved.up});
  return y;
}

Tensor Mlp::first(Context& c, Tensor& x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  if (pairs_ == 0) return activation_.forward(c, fc1_, x, saved.fc1, saved.activation);
  {
    const Linear::Arrived arrived = fc1_.arrive(c, x);
    saved.gate = half(c, arrived, 0);
    saved.up = half(c, arrived, 1);
    fc1_.keep_input(c, std::move(x), arrived, saved.fc1);
  }
  return gated(c, saved);
}

Tensor Mlp::second(Context& c, const Tensor& wide, Mixer::Saved& kept) const {
  Saved& saved = static_cast<Saved&>(kept);
  const Tensor y = fc2_.forward(c, wide, saved.fc2);
  if (pairs_ > 0 && c.keeps().unread_products) saved.unread = y;
  return y;
}

Tensor Mlp::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  const Tensor wide = first(c, x, keep);
  return second(c, wide, *keep);
}

void Mlp::restore(Context& c, const MicroBatch& batch, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  if (pairs_ > 0) {
    forward(c, batch, std::move(x), keep);
    return;
  }
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  const Tensor wide = activation_.forward(c, fc1_, std::move(x), saved.fc1, saved.activation);
  fc2_.restore(c, wide, saved.fc2);
}

void Mlp::keep_alternate_gemms(Mixer::Saved& kept) const {
  Saved& saved = static_cast<Saved&>(kept);
  saved.up.reset();
  saved.fc1.forget_input();
  saved.fc2.forget_input();
}

// The second product of the block is a kept one, and nobody reads it again.
Tensor Mlp::make_others(Context& c, const MicroBatch&, Tensor x, Mixer::Saved& kept, bool) const {
  Saved& saved = static_cast<Saved&>(kept);
  {
    const Linear::Arrived arrived = fc1_.arrive(c, x);
    saved.up = half(c, arrived, 1);
    fc1_.keep_input(c, std::move(x), arrived, saved.fc1);
  }
  saved.fc2.x = gated(c, saved);
  return {};
}

Tensor Mlp::second_backward(Context& c, Tensor dy, Mixer::Saved& kept) const {
  return fc2_.backward(c, std::move(dy), static_cast<Saved&>(kept).fc2);
}

Tensor Mlp::first_backward(Context& c, Tensor gradient, Mixer::Saved& kept) const {
  Saved& saved = static_cast<Saved&>(kept);
  Tensor wide;
  if (pairs_ == 0) {
    wide = activation_.backward(c, fc1_, gradient, saved.activation);
  } else {
    Shape pairs = gradient.shape();
    pairs[-1] *= 2;
    const InParts parts(fc1_.parts());
    wide = c.activation(pairs, "gradient of gates and ups");
    run(c.device, ops::SwiGluGrad{gradient, saved.gate, Tensor(), wide, Tensor(), Tensor(), saved.up});
    saved.gate.reset();
    saved.up.reset();
    saved.unread.reset();
  }
  gradient.reset();
  return fc1_.backward(c, std::move(wide), saved.fc1);
}

Tensor Mlp::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  if (pairs_ > 0) return first_backward(c, second_backward(c, std::move(dy), saved), saved);
  Tensor wide = activation_.backward(c, fc1_, fc2_, std::move(dy), saved.fc2, saved.activation);
  return fc1_.backward(c, std::move(wide), saved.fc1);
}

}  // namespace mbench::nn
