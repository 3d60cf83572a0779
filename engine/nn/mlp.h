// The dense feed-forward block: fc2(activation(fc1(x))).
#pragma once
#include "engine/nn/activation.h"
#include "engine/nn/mixer.h"

namespace mbench {

class Mlp final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Linear::Saved fc1, fc2;
    ActivationFunction::Saved activation;
    std::vector<Tensor*> inputs() override { return {&fc1.x}; }
  };
  Mlp(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Regions drop = {});
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return fc2_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  Linear fc1_, fc2_;
  ActivationFunction activation_;
};

}  // namespace mbench
