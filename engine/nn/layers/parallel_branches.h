// Branches of a layer that read its input in parallel: all of them (GPT-J, GPT-NeoX, Falcon, Command-R), or its mixers (Falcon-H1). y = x +
// scale * dropout(a(n(x)) + m(n(x)) + biases), where a branch may have a factor of its own. There is one norm n, or one for each. They share their exchanges over tp: the
// normed input where it is gathered, and the sum of their outputs where it is reduced. In backward they share the sum
// of their inputs' gradients; where each has a norm, these lie next to each other.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/layers/mixer.h"
#include "engine/nn/layers/norm.h"
#include "engine/nn/layers/plan_inside.h"
#include "engine/nn/layers/residual.h"
#include "engine/nn/runtime/recompute.h"

namespace mbench::nn {

class ParallelBranches {
 public:
  struct Saved {
    std::vector<Norm::Saved> norms;
    // [norm], as it lies between layers; empty where it is recomputed.
    std::vector<Tensor> normed;
    std::vector<std::unique_ptr<Mixer::Saved>> mixers;
    ResidualDropout::Saved residual;
  };
  ParallelBranches(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;

 private:
  struct Part {
    std::size_t norm;  // which one it reads
    std::unique_ptr<Mixer> mixer;
    Checkpoint checkpoint;
    float factor;
  };
  // The gradient of what a part makes, from the sum's gradient.
  static Tensor of_part(Context& context, const Part& part, const Tensor& dsum);
  // Brings the norms' outputs where the mixers' first GEMMs need them: one exchange for all.
  std::vector<Tensor> arrive(Context& context, const std::vector<Tensor>& normed) const;
  // From the gradients of what arrived to the gradients of the norms' outputs: one exchange for all.
  std::vector<Tensor> leave(Context& context, std::vector<Tensor> gradients) const;
  Tensor bias(Context& context) const;

  std::unique_ptr<Plan> inside_;  // of the mixers, which exchange nothing themselves
  ExchangesOutside outside_;
  std::vector<Norm> norms_;
  std::vector<Part> parts_;
  ResidualDropout residual_;
  Checkpoint norm_checkpoint_;
};

}  // namespace mbench::nn
