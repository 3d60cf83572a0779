// A layer is residual branches, one after the other: y = x + dropout(mixer(norm(x)) + bias), or, with the norms last,
// y = norm(x + dropout(mixer(x) + bias)); a norm may stand on a branch's output too, or there alone, before the sum. Or its branches
// stand side by side (parallel_branches.h).
#pragma once
#include "engine/nn/mixer.h"
#include "engine/nn/norm.h"
#include "engine/nn/parallel_branches.h"
#include "engine/nn/recompute.h"
#include "engine/nn/residual.h"

namespace mbench {

class Branch {
 public:
  struct Saved {
    Norm::Saved norm, output_norm;
    Tensor input;  // of a mixer that is dropped, where it is not made again too
    std::unique_ptr<Mixer::Saved> mixer;
    ResidualDropout::Saved residual;
  };
  Branch(ParameterStore& store, const Plan& plan, const LayerSpec& layer, const BranchSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // The gradient of the sum is that of the path that by-passes the mixer too.
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  // Of a layer that keeps every second product: what of the branch is dropped, and all of that again from x as it was; then
  // the sum, where the next branch wants it, else nothing.
  void keep_alternate_gemms(Saved& saved) const;
  Tensor make_others(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved, bool sum) const;
  void after_step(Context& context) const { mixer_->after_step(context); }

 private:
  Tensor mix(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const;
  Tensor mix_back(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;

  NormPlace place_;
  std::optional<Norm> norm_;
  std::unique_ptr<Mixer> mixer_;
  std::optional<Norm> output_norm_;
  ResidualDropout residual_;
  Checkpoint norm_checkpoint_, mixer_checkpoint_;
};

class Layer {
 public:
  struct Saved {
    Tensor
        input;  // all that is left of a layer that is dropped, and what one is made again of that keeps every second product
    std::vector<Branch::Saved> branches;
    ParallelBranches::Saved parallel;
  };
  // `drop`: the regions that a forward drops (spec/regions.h).
  Layer(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  void after_step(Context& context) const {
    for (const Branch& branch : branches_) branch.after_step(context);  // those that stand side by side have no experts
  }

 private:
  Tensor run_branches(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;

  void make_others(Context& context, const MicroBatch& batch, Saved& saved) const;

  std::vector<Branch> branches_;
  std::unique_ptr<ParallelBranches> parallel_;  // in their place
  Checkpoint checkpoint_, gemms_checkpoint_;
};

}  // namespace mbench
