#include "engine/nn/layers/layer.h"

#include "engine/ops/add.h"
#include "engine/ops/bias_add.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

std::optional<Norm> norm_if(ParameterStore& store, const Plan& plan, const std::optional<NormSpec>& spec) {
  return spec ? std::optional<Norm>(std::in_place, store, plan, *spec) : std::nullopt;
}

// The norm before a feed-forward block or experts, or before attention.
OffloadedPart norm_part(const BranchSpec& branch) {
  const bool mlp = std::holds_alternative<MlpSpec>(branch.mixer) || std::holds_alternative<MoeSpec>(branch.mixer);
  return mlp ? OffloadedPart::mlp_norm : OffloadedPart::attn_norm;
}

}  // namespace

Branch::Branch(ParameterStore& store, const Plan& plan, const LayerSpec& layer, const BranchSpec& spec, Regions drop)
    : place_(layer.norm_place),
      norm_(norm_if(store, plan, spec.norm)),
      mixer_(make_mixer(store, plan, spec, drop)),
      output_norm_(norm_if(store, plan, spec.output_norm)),
      residual_(spec.name + ".residual.dropout", layer.residual_scale * spec.factor),
      norm_checkpoint_(drop.has(Region::norm)),
      mixer_checkpoint_(drops_mixer(spec, drop)),
      norm_piece_(plan, norm_part(spec)),
      captured_(captured_whole(plan.captured, spec)),
      router_captured_(plan.captured.has(CapturedPart::moe_router) && std::holds_alternative<MoeSpec>(spec.mixer) &&
                       place_ != NormPlace::post && norm_) {
  // Behind what the mixer captures of its backward.
  norm_backward_.joined = router_captured_;
}

void Branch::join(Branch& behind) {
  if (!captured_) return;
  behind.forward_.joined = behind.captured_;
  behind.norm_forward_.joined = behind.router_captured_;
  backward_.joined = behind.captured_ || behind.router_captured_;
}

Tensor Branch::mix(Context& c, const MicroBatch& batch, Tensor x, Saved& saved) const {
  if (mixer_checkpoint_.dropped() && !norm_checkpoint_.dropped()) saved.input = x;
  const Tensor y = mixer_->forward(c, batch, std::move(x), saved.mixer);
  if (!mixer_checkpoint_.drop(saved.mixer) && norm_checkpoint_.dropped())
    for (Tensor* input : saved.mixer->inputs()) input->reset();
  return y;
}

Tensor Branch::mix_back(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  if (norm_checkpoint_.dropped()) c.offload.bring_back(c.device, saved.norm_group);
  norm_checkpoint_.restore(c, [&] {
    Norm::Saved again;
    const Tensor normed = norm_->forward(c, Norm::input(c, saved.norm), again);
    if (mixer_checkpoint_.dropped()) {
      saved.input = normed;
    } else {
      for (Tensor* input : saved.mixer->inputs()) *input = normed;
    }
  });
  mixer_checkpoint_.restore(c, [&] { mixer_->forward(c, batch, std::exchange(saved.input, Tensor()), saved.mixer); });
  const Tensor dx = mixer_->backward(c, batch, std::move(dy), saved.mixer);
  saved.mixer.reset();
  return dx;
}

Tensor Branch::norm_forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  if (!norm_) return x;
  const auto run = [&] {
    Tensor y;
    norm_forward_.graph(c, router_captured_, batch, [&] { y = norm_->forward(c, x, saved.norm); });
    return y;
  };
  return norm_piece_.forward(c, saved.norm_group, run, [&](const auto& keep) { keep(saved.norm.x); });
}

Tensor Branch::norm_backward(Context& c, const MicroBatch& batch, const Tensor& dnormed, const Tensor& dy,
                             Saved& saved) const {
  Tensor dx;
  c.offload.bring_back(c.device, saved.norm_group);
  norm_backward_.run(c, router_captured_, batch, dy,
                     [&](const Tensor& in) { dx = norm_->backward(c, dnormed, in, saved.norm); });
  return dx;
}

Tensor Branch::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor y;
  forward_.run(c, captured_, batch, x, [&](const Tensor& in) { y = run_forward(c, batch, in, saved); });
  return y;
}

// Behind the mixer nothing is kept, if no norm and no dropout is there.
void Branch::restore(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  const bool stops = c.keeps().early_stop && place_ != NormPlace::post && !output_norm_ && c.dropout() == 0 &&
                     !captured_ && !router_captured_ && !mixer_checkpoint_.dropped() && !norm_checkpoint_.dropped();
  if (stops)
    mixer_->restore(c, batch, norm_forward(c, batch, x, saved), saved.mixer);
  else
    forward(c, batch, x, saved);
}

Tensor Branch::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  Tensor dx;
  backward_.run(c, captured_, batch, dy, [&](const Tensor& in) { dx = run_backward(c, batch, in, saved); });
  return dx;
}

Tensor Branch::run_forward(Context& c, const MicroBatch& batch, const Tensor& input, Saved& saved) const {
  const Tensor x = norm_forward_.own_input(c, router_captured_, input);
  if (place_ == NormPlace::post) {
    const Tensor mixed = mix(c, batch, x, saved);
    return norm_->forward(c, residual_.forward(c, batch, mixed, mixer_->bias(), x, saved.residual), saved.norm);
  }
  Tensor mixed = mix(c, batch, norm_forward(c, batch, x, saved), saved), bias = mixer_->bias();
  if (output_norm_) {
    if (bias) run(c.device, ops::BiasAdd{mixed, bias, mixed});
    bias.reset();
    mixed = output_norm_->forward(c, mixed, saved.output_norm);
  }
  return residual_.forward(c, batch, mixed, bias, x, saved.residual);
}

Tensor Branch::run_backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  if (place_ == NormPlace::post) {
    const Tensor dsum = norm_->backward(c, dy, Tensor(), saved.norm);
    const Tensor dx = mix_back(c, batch, residual_.backward(c, batch, dsum, saved.residual), saved);
    run(c.device, ops::Add{dx, dsum, dx});
    return dx;
  }
  Tensor dmixed = residual_.backward(c, batch, dy, saved.residual);
  if (output_norm_) dmixed = output_norm_->backward(c, dmixed, Tensor(), saved.output_norm);
  const Tensor dnormed = mix_back(c, batch, std::move(dmixed), saved);
  if (norm_) return norm_backward(c, batch, dnormed, dy, saved);
  run(c.device, ops::Add{dnormed, dy, dnormed});
  return dnormed;
}

void Branch::keep_alternate_gemms(Saved& saved) const {
  saved.norm = {};
  mixer_->keep_alternate_gemms(*saved.mixer);
}

Tensor Branch::make_others(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved, bool sum) const {
  const Tensor mixed = mixer_->make_others(c, batch, norm_->forward(c, x, saved.norm), *saved.mixer, sum);
  return sum ? residual_.forward(c, batch, mixed, mixer_->bias(), x, saved.residual) : Tensor();
}

Layer::Layer(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop)
    : captured_(plan.captured.has(CapturedPart::layer)),
      checkpoint_(drop.has(Region::layer)),
      gemms_checkpoint_(drop.has(Region::alternate_gemms)) {
  if (spec.parallel > 0) parallel_ = std::make_unique<ParallelBranches>(store, plan, spec, drop);
  for (std::size_t i = spec.parallel; i < spec.branches.size(); ++i)
    branches_.emplace_back(store, plan, spec, spec.branches[i], drop);
  for (std::size_t i = 0; i + 1 < branches_.size(); ++i) branches_[i].join(branches_[i + 1]);
}

Tensor Layer::run_branches(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  saved.branches.resize(branches_.size());
  Tensor hidden = parallel_ ? parallel_->forward(c, batch, x, saved.parallel) : x;
  for (std::size_t i = 0; i < branches_.size(); ++i) hidden = branches_[i].forward(c, batch, hidden, saved.branches[i]);
  return hidden;
}

void Layer::restore_branches(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  saved.branches.resize(branches_.size());
  Tensor hidden = parallel_ ? parallel_->forward(c, batch, x, saved.parallel) : x;
  if (branches_.empty()) return;
  for (std::size_t i = 0; i + 1 < branches_.size(); ++i)
    hidden = branches_[i].forward(c, batch, hidden, saved.branches[i]);
  branches_.back().restore(c, batch, hidden, saved.branches.back());
}

Tensor Layer::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor y;
  forward_.run(c, captured_, batch, x, [&](const Tensor& in) { y = run_forward(c, batch, in, saved); });
  return y;
}

Tensor Layer::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  Tensor dx;
  backward_.run(c, captured_, batch, dy, [&](const Tensor& in) { dx = run_backward(c, batch, in, saved); });
  return dx;
}

Tensor Layer::run_forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  const Tensor y = run_branches(c, batch, x, saved);
  if (checkpoint_.drop(saved)) saved.input = x;
  if (gemms_checkpoint_.dropped()) {
    saved.input = x;
    for (std::size_t i = 0; i < branches_.size(); ++i) branches_[i].keep_alternate_gemms(saved.branches[i]);
  }
  return y;
}

void Layer::make_others(Context& c, const MicroBatch& batch, Saved& saved) const {
  Tensor hidden = std::exchange(saved.input, Tensor());
  for (std::size_t i = 0; i < branches_.size(); ++i)
    hidden = branches_[i].make_others(c, batch, hidden, saved.branches[i], i + 1 < branches_.size());
}

Tensor Layer::run_backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  checkpoint_.restore(c, [&] {
    const Tensor x = std::exchange(saved.input, Tensor());
    restore_branches(c, batch, x, saved);
  });
  gemms_checkpoint_.restore(c, [&] { make_others(c, batch, saved); });
  Tensor gradient = dy;
  for (std::size_t i = branches_.size(); i-- > 0;)
    gradient = branches_[i].backward(c, batch, gradient, saved.branches[i]);
  return parallel_ ? parallel_->backward(c, batch, gradient, saved.parallel) : gradient;
}

}  // namespace mbench::nn
