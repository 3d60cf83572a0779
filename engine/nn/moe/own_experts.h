// Rows of tokens that are here already, for this rank's own experts: what dispatchers do that bring tokens to a rank before rows are made
// of them.
#pragma once
#include "engine/nn/moe/expert_shares.h"
#include "engine/nn/moe/token_dispatcher.h"

namespace mbench::nn {

class OwnExperts {
 public:
  OwnExperts(const Plan& plan, const MoeSpec& spec)
      : shares_(plan, spec), permutation_(plan, spec), counted_along_(sequence_axes(plan.hidden.value, plan.mesh)) {}
  const ExpertShares& shares() const { return shares_; }
  const Permutation& permutation() const { return permutation_; }

  // `experts`: [..., k] i64 of the tokens here; `rows`: like it, for the plan. `tokens`: those that experts share, of all ranks that send
  // some here; `most`: rows at least that there is room for, where their number follows the data. `waits`: the host waits for the counts though
  // it knows them.
  void plan(Context& context, const Tensor& experts, const Tensor& rows, std::int64_t tokens, std::int64_t most,
            bool waits, TokenDispatcher::Saved& saved) const;
  // A plan's counts are of other ranks' tokens too, and only of own experts: these are of this rank's own tokens.
  Router::Load load(Context& context, const Tensor& chosen) const;

  RowsInFlight dispatch(Context& context, const Tensor& tokens, TokenDispatcher::Saved& saved) const;
  // From the gradients of the rows' weights, where these went to the experts.
  void weights_backward(Context& context, const Tensor& of_rows, TokenDispatcher::Saved& saved) const;

 private:
  // As AllToAll's.
  void read_sizes(Context& context, const Tensor& counts, std::int64_t pairs, TokenDispatcher::Saved& saved) const;
  // Makes the rows as many as there is room for (ExpertRoom), and takes note where more came.
  static void fit_into_room(Context& context, std::int64_t room, TokenDispatcher::Saved& saved);

  ExpertShares shares_;
  Permutation permutation_;
  Axes counted_along_;
};

}  // namespace mbench::nn
