// A layer is residual branches, one after the other: `y = x + dropout(mixer(norm(x)) + bias)`. With the norms last it
// is `y = norm(x + dropout(mixer(x) + bias))`. A norm may also stand on a branch's output, before the sum, with or
// without the first one. Or the branches run in parallel (parallel_branches.h).
#pragma once
#include "engine/nn/layers/mixer.h"
#include "engine/nn/layers/norm.h"
#include "engine/nn/layers/parallel_branches.h"
#include "engine/nn/layers/residual.h"
#include "engine/nn/runtime/captured.h"
#include "engine/nn/runtime/offloaded_piece.h"
#include "engine/nn/runtime/recompute.h"

namespace mbench::nn {

class Branch {
 public:
  struct Saved {
    Norm::Saved norm, output_norm;
    int norm_group = -1;  // of what the norm keeps, where that is on the host
    Tensor input;         // of a mixer that is dropped, where the input is not recomputed too
    std::unique_ptr<Mixer::Saved> mixer;
    ResidualDropout::Saved residual;
  };
  Branch(ParameterStore& store, const Plan& plan, const LayerSpec& layer, const BranchSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // Fills what forward() saves, of the last branch of a layer that is recomputed. Nothing reads the sum, which is left where the framework
  // leaves it.
  void restore(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // dy is the gradient of the sum, and so also of the path that by-passes the mixer.
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  // For a layer that keeps every second GEMM: frees what the branch drops, and makes it again from x as it was. Returns
  // the sum where the next branch needs it, else nothing.
  void keep_alternate_gemms(Saved& saved) const;
  Tensor make_others(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved, bool sum) const;
  void after_step(Context& context) const { mixer_->after_step(context); }
  // Captured parts of the branch behind this one are of the same graph as this one's, where both are next to each other.
  void join(Branch& behind);

 private:
  Tensor run_forward(Context& context, const MicroBatch& batch, const Tensor& input, Saved& saved) const;
  Tensor run_backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  Tensor norm_forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor norm_backward(Context& context, const MicroBatch& batch, const Tensor& dnormed, const Tensor& dy,
                       Saved& saved) const;
  Tensor mix(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const;
  Tensor mix_back(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;

  NormPlace place_;
  std::optional<Norm> norm_;
  std::unique_ptr<Mixer> mixer_;
  std::optional<Norm> output_norm_;
  ResidualDropout residual_;
  Checkpoint norm_checkpoint_, mixer_checkpoint_;
  OffloadedPiece norm_piece_;
  // What is captured of it: all of it, or its norm together with the router.
  bool captured_, router_captured_;
  CapturedPiece forward_, backward_, norm_forward_, norm_backward_;
};

class Layer {
 public:
  struct Saved {
    Tensor input;  // of a layer that is dropped, or keeps every second GEMM: what the rest is recomputed from
    std::vector<Branch::Saved> branches;
    ParallelBranches::Saved parallel;
  };
  // `drop`: the regions that a forward drops (spec/regions.h).
  Layer(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  void after_step(Context& context) const {
    for (const Branch& branch : branches_) branch.after_step(context);  // parallel ones have no experts
  }

 private:
  Tensor run_forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor run_backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  Tensor run_branches(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  void restore_branches(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;

  void make_others(Context& context, const MicroBatch& batch, Saved& saved) const;

  std::vector<Branch> branches_;
  std::unique_ptr<ParallelBranches> parallel_;  // the first ones, where they run side by side
  bool captured_;
  CapturedPiece forward_, backward_;
  Checkpoint checkpoint_, gemms_checkpoint_;
};

}  // namespace mbench::nn
