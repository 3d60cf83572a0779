// The expert that sees all tokens. Where the model says so, a gate of its own scales its output by a number for each token.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/layers/mlp.h"

namespace mbench::nn {

class SharedExpert {
 public:
  struct Saved {
    std::unique_ptr<Mixer::Saved> mlp;
    Linear::Saved gate_linear;
    Tensor gate, output;  // f32 of each token, and the output that it multiplies
    bool gated = false;
    void add_inputs(std::vector<Tensor*>& all);
  };
  SharedExpert(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop);
  // The bias that is left to add: where a gate multiplies it too, forward adds it.
  Tensor bias() const { return gate_ ? Tensor() : mlp_.bias(); }
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;

 private:
  Mlp mlp_;
  std::optional<Linear> gate_;
};

}  // namespace mbench::nn
