#include "engine/nn/mlp.h"

namespace mbench {

Mlp::Mlp(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Regions drop)
    : fc1_(store, plan, spec.fc1), fc2_(store, plan, spec.fc2), activation_(spec.activation) {
  fc1_.use_fp8(store, plan, drop.has(Region::norm));
  fc2_.use_fp8(store, plan);
}

Tensor Mlp::forward(Context& c, const MicroBatch&, Tensor x, std::unique_ptr<Mixer::Saved>& keep) const {
  auto owned = std::make_unique<Saved>();
  Saved& saved = *owned;
  keep = std::move(owned);
  const Tensor wide = activation_.forward(c, fc1_, std::move(x), saved.fc1, saved.activation);
  return fc2_.forward(c, wide, saved.fc2);
}

Tensor Mlp::backward(Context& c, const MicroBatch&, Tensor dy, std::unique_ptr<Mixer::Saved>& kept) const {
  Saved& saved = static_cast<Saved&>(*kept);
  Tensor wide = activation_.backward(c, fc1_, fc2_, std::move(dy), saved.fc2, saved.activation);
  return fc1_.backward(c, std::move(wide), saved.fc1);
}

}  // namespace mbench
