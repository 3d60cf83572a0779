// MoE: each token goes to the experts that the router chose for it, and their outputs come back and are summed by
// weight. The shared expert, if there is one, sees all tokens. Where the graph has weights within experts, they go to
// the experts with the rows, and what comes back is summed as it is. Where tokens are gathered over ep, no row travels:
// each rank sums what its own experts make of all tokens, and the sums are reduce-scattered. Or tokens go once to each
// rank that has any of their experts, which sums what those make of them. Where the model says so, tokens travel and
// experts compute in another width than hidden, between two projections (Nemotron-3).
#pragma once
#include <optional>

#include "engine/nn/layers/mixer.h"
#include "engine/nn/layers/mlp.h"
#include "engine/nn/moe/experts.h"
#include "engine/nn/moe/rank_visits.h"
#include "engine/nn/moe/router.h"
#include "engine/nn/runtime/captured.h"

namespace mbench {

class Moe final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Router::Saved router;
    Tensor weights;      // of the dispatched tokens, [tokens, k], unless they went to the experts
    Tensor rows, pairs;  // as DispatchPlan made them
    ExpertRows sizes;
    ExpertWay way;
    RankWay visits;
    Experts::Saved experts;
    Tensor output;  // of the experts, a row for each that was dispatched, where weights multiply it
    std::unique_ptr<Mixer::Saved> shared;
    Linear::Saved shared_gate, down, up;
    bool narrowed = false;  // whether `down` is there
    // Where the shared expert has a gate: the gate, f32 of each token, and the output that it multiplies.
    Tensor gate, shared_output;
    bool gated = false;
    std::vector<Tensor*> inputs() override {
      std::vector<Tensor*> all = {&router.linear.x};
      if (narrowed) all.push_back(&down.x);
      if (gated) all.push_back(&shared_gate.x);
      if (shared)
        for (Tensor* input : shared->inputs()) all.push_back(input);
      return all;
    }
  };
  Moe(ParameterStore& store, const Plan& plan, const MoeSpec& spec, Regions drop = {});
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  // The shared expert's bias; where a gate multiplies it too, it is added there. Routed experts' biases are added by
  // expert.
  Tensor bias() const override { return shared_ && !shared_gate_ ? shared_->bias() : Tensor(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;
  void after_step(Context& context) const override { router_.after_step(context); }

 private:
  // The shared expert's output; and the gradient of its input from the gradient of that.
  Tensor shared_forward(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const;
  Tensor shared_backward(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;
  // What a dispatcher that sends rows costs a framework's host in addition to its ops, in forward and in backward.
  void charge_sending(Context& context) const;
  bool weights_go(const Context& context) const;  // to the experts, with the rows
  // Plans where the chosen pairs go, and saves the plan.
  void plan_dispatch(Context& context, const MicroBatch& batch, const Tensor& experts, Saved& saved) const;
  // The same for sizes that follow the data, from the plan's counts: the host waits for them.
  void read_sizes(Context& context, const Tensor& counts, std::int64_t pairs, Saved& saved) const;
  // The rows of an expert that has `rows` on average, were this the fullest rank.
  std::int64_t fullest(std::int64_t rows) const;
  // Where a framework makes rows of the arrived tokens by small ops; the host waits for some of them.
  void make_token_map(Context& context, bool backward) const;
  void wait_for_sizes(Context& context, const Tensor& counts) const;
  // How many of this rank's own tokens chose each expert. A plan's counts are of other ranks' tokens too, and only of
  // own experts.
  Tensor counts_of_own(Context& context, const Saved& saved) const;
  // The tokens that come to this rank, for x of its own; `experts` and the weights become those of these tokens too.
  Tensor visitors(Context& context, const Tensor& x, Tensor& experts, Saved& saved) const;
  // A tensor [tokens, ..., width] in the activations' type, for the tokens that the plan is of.
  Tensor for_tokens(Context& context, const Shape& whole, const Saved& saved, std::string_view what) const;
  // The weights of the tokens' pairs, by the rows in which they go out: [rows, 1] f32, zero in padding. The former are
  // freed.
  Tensor weights_of_rows(Context& context, Saved& saved) const;

  std::int64_t experts_number_, active_;
  RouterMode mode_;
  bool weighs_inputs_;  // the router's weights multiply what experts read, so they go to them
  bool equal_;          // with balanced routing: experts have as many rows each
  double imbalance_;    // rows of this rank, were it the fullest, over the mean: in simulation
  EpCommunication communication_;
  bool own_;                  // the plan is only of this rank's own experts, and of all tokens that come to it
  Transition tokens_, sums_;  // hidden activations to where they are dispatched; summed outputs back
  Axes counted_apart_;        // along which other ranks dispatch tokens that are balanced together with this rank's
  Router router_;
  Experts experts_;
  ExpertExchange exchange_;
  std::optional<RankVisits> visits_;  // where tokens go once to each of several ranks
  std::optional<Mlp> shared_;
  std::optional<Linear> shared_gate_;
  std::optional<Linear> down_, up_;  // to the width of experts, and back
  // What is captured of it: the router, and what plans and makes the rows that go out. Each is of the graph of the norm before.
  bool router_captured_, preprocess_captured_;
  CapturedPiece route_, plan_, permute_, permute_back_, route_back_;
};

}  // namespace mbench
