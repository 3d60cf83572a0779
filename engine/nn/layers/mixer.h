// What a residual branch computes between its norm and its sum: attention, a feed-forward block, experts.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

class Mixer {
 public:
  // What an implementation keeps for its gradient.
  struct Saved {
    virtual ~Saved() = default;
    // Where it keeps the mixer's input: emptied between forward and backward where the input is recomputed.
    virtual std::vector<Tensor*> inputs() = 0;
  };
  virtual ~Mixer() = default;
  // Hidden activations to hidden activations, without the bias of the last linear layer: the residual sum adds it.
  virtual Tensor forward(Context& context, const MicroBatch& batch, Tensor x, std::unique_ptr<Saved>& saved) const = 0;
  // Fills what forward() saves, in a backward that recomputes it. The output is not needed; by default it is made all the same.
  virtual void restore(Context& context, const MicroBatch& batch, Tensor x, std::unique_ptr<Saved>& saved) const {
    forward(context, batch, std::move(x), saved);
  }
  // For a layer that keeps every second GEMM (Region::alternate_gemms). keep_alternate_gemms() frees the other GEMMs'
  // outputs and what was made of them. make_others() makes these again from x as it was, and the output too where it is
  // asked for.
  virtual void keep_alternate_gemms(Saved& saved) const;
  virtual Tensor make_others(Context& context, const MicroBatch& batch, Tensor x, Saved& saved, bool output) const;
  virtual Tensor bias() const = 0;  // empty if there is none
  // The gradient of x from the gradient of the output with bias; frees what was saved.
  virtual Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                          std::unique_ptr<Saved>& saved) const = 0;
  // After an optimizer step: moves what no gradient moves.
  virtual void after_step(Context&) const {}
};

// `drop`: the regions of the layer that its forward drops; a mixer knows those inside itself.
std::unique_ptr<Mixer> make_mixer(ParameterStore& store, const Plan& plan, const BranchSpec& branch, Regions drop);

// Whether a forward drops all that the branch's mixer keeps.
bool drops_mixer(const BranchSpec& branch, Regions drop);

}  // namespace mbench::nn
