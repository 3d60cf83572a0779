#include "engine/nn/layer.h"

#include "engine/ops/add.h"
#include "engine/ops/run.h"

namespace mbench {

Branch::Branch(ParameterStore& store, const Plan& plan, const BranchSpec& spec, NormPlace place, Regions drop)
    : place_(place),
      norm_(store, plan, spec.norm),
      mixer_(make_mixer(store, plan, spec, drop)),
      residual_(spec.name + ".residual.dropout") {}

Tensor Branch::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  if (place_ == NormPlace::post) {
    const Tensor mixed = mixer_->forward(c, batch, x, saved.mixer);
    return norm_.forward(c, residual_.forward(c, batch, mixed, mixer_->bias(), x, saved.residual),
                         saved.norm);
  }
  const Tensor mixed = mixer_->forward(c, batch, norm_.forward(c, x, saved.norm), saved.mixer);
  return residual_.forward(c, batch, mixed, mixer_->bias(), x, saved.residual);
}

Tensor Branch::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  if (place_ == NormPlace::post) {
    const Tensor dsum = norm_.backward(c, dy, Tensor(), saved.norm);
    const Tensor dx =
        mixer_->backward(c, batch, residual_.backward(c, batch, dsum, saved.residual), saved.mixer);
    saved.mixer.reset();
    run(c.device, ops::Add{dx, dsum, dx});
    return dx;
  }
  const Tensor dnormed =
      mixer_->backward(c, batch, residual_.backward(c, batch, dy, saved.residual), saved.mixer);
  saved.mixer.reset();
  return norm_.backward(c, dnormed, dy, saved.norm);
}

Layer::Layer(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop)
    : checkpoint_(drop.has(Region::layer)) {
  for (const BranchSpec& branch : spec.branches)
    branches_.emplace_back(store, plan, branch, spec.norm_place, drop);
}

Tensor Layer::run_branches(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  saved.branches.resize(branches_.size());
  Tensor hidden = x;
  for (std::size_t i = 0; i < branches_.size(); ++i)
    hidden = branches_[i].forward(c, batch, hidden, saved.branches[i]);
  return hidden;
}

Tensor Layer::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  const Tensor y = run_branches(c, batch, x, saved);
  if (checkpoint_.drop(saved)) saved.input = x;
  return y;
}

Tensor Layer::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  checkpoint_.restore(c, [&] {
    const Tensor x = std::exchange(saved.input, Tensor());
    run_branches(c, batch, x, saved);
  });
  Tensor gradient = dy;
  for (std::size_t i = branches_.size(); i-- > 0;)
    gradient = branches_[i].backward(c, batch, gradient, saved.branches[i]);
  return gradient;
}

}  // namespace mbench
