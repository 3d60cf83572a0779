// The router of an MoE: which experts each of this rank's tokens visits, and how much each counts.
#pragma once
#include "engine/nn/linear/linear.h"
#include "engine/ops/route.h"

namespace mbench::nn {

// How the router of a model chooses in a benchmark.
ops::RouterRule router_rule(const RoutingSpec& spec, const RouterMode& mode);

// The axes, of more than one rank, that split the sequence (dim 0) of activations that lie so.
Axes sequence_axes(const Spread& value, const Mesh& mesh);

class Router {
 public:
  struct Saved {
    Linear::Saved linear;
    Tensor logits;             // [seq, batch, experts] of this rank's hidden activations
    Tensor experts;            // [seq, batch, k] i64
    Tensor counts;             // [experts] i64: pairs that chose each, of all tokens whose losses are balanced together
    std::int64_t counted = 0;  // how many tokens those are; a token that several ranks dispatch counts for each
  };
  Router(ParameterStore& store, const Plan& plan, const MoeSpec& spec);
  // Returns the weights of the chosen experts, [seq, batch, k] f32.
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // The gradient of x from the gradient of the weights and from the router's own losses; frees what was saved.
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dweights, Saved& saved) const;

  // How many of a micro batch's tokens chose each expert. All tokens are counted equally often.
  struct Load {
    Tensor counts;            // [experts] i64
    std::int64_t tokens = 0;  // that they are of
    Axes along = {};          // other ranks' tokens along these are balanced together with them
  };
  void count(Context& context, const Load& load, Saved& saved) const;
  // Moves the correction by what was counted since the last call.
  void after_step(Context& context) const;

  // Whether it needs counts.
  bool balances() const { return losses_.balance > 0 || losses_.z > 0 || correction_; }

 private:
  ops::RouterRule rule_;
  ops::RouterLosses losses_;
  std::int64_t active_;
  Axes cut_;  // along which the tokens that are balanced together are split
  Linear linear_;
  // Where choices are corrected: [experts] each.
  float speed_ = 0;
  Tensor correction_, load_;
  mutable std::int64_t counted_ = 0;  // tokens in load_; a layer that is computed again counts its tokens again
  mutable bool counted_in_rerun_ = false;
};

}  // namespace mbench::nn
