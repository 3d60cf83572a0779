// MoE: each token goes to the experts that the router chose for it, and their outputs come back and are summed by weight. How they travel is
// the dispatcher's (token_dispatcher.h). The shared expert, if there is one, sees all tokens: when, is the framework's (shared_moments.h).
// Where the model says so, tokens travel and experts compute in another width than hidden, between two projections (Nemotron-3).
#pragma once
#include <optional>

#include "engine/nn/layers/mixer.h"
#include "engine/nn/moe/experts.h"
#include "engine/nn/moe/router.h"
#include "engine/nn/moe/shared_moments.h"
#include "engine/nn/moe/token_dispatcher.h"
#include "engine/nn/runtime/captured.h"

namespace mbench::nn {

class Moe final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Router::Saved router;
    std::unique_ptr<TokenDispatcher::Saved> tokens;
    Experts::Saved experts;
    SharedExpert::Saved shared;
    Linear::Saved down, up;
    bool narrowed = false;  // whether `down` is there
    std::vector<Tensor*> inputs() override;
  };
  Moe(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop = {});
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  // The shared expert's. Routed experts' biases are added by expert.
  Tensor bias() const override { return shared_ ? shared_->bias() : Tensor(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;
  void after_step(Context& context) const override { router_.after_step(context); }

 private:
  // The gradient of x by way of router and dispatched tokens.
  Tensor route_backward(Context& context, const MicroBatch& batch, const TokenDispatcher::Gradients& gradients,
                        Saved& saved, SharedBackward& shared) const;
  const SharedExpert* shared() const { return shared_ ? &*shared_ : nullptr; }

  Router router_;
  Experts experts_;
  std::unique_ptr<TokenDispatcher> dispatcher_;
  std::optional<SharedExpert> shared_;
  std::optional<Linear> down_, up_;  // to the width of experts, and back
  // The router may be captured, in the graph of the norm before.
  bool router_captured_;
  CapturedPiece route_, route_back_;
};

}  // namespace mbench::nn
