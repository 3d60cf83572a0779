// Rows of this rank's tokens go to the ranks of their experts by an all-to-all, and experts' outputs come back by another: Megatron-Core's
// MoEAlltoAllTokenDispatcher.
#pragma once
#include "engine/nn/moe/expert_shares.h"
#include "engine/nn/moe/token_dispatcher.h"
#include "engine/nn/runtime/captured.h"

namespace mbench::nn {

class AllToAll final : public TokenDispatcher {
 public:
  AllToAll(const Plan& plan, const MoeSpec& spec);
  void charge_host(Context& context) const override { context.device.host_work(HostWork::moe); }
  bool captured() const override { return captured_; }
  std::unique_ptr<TokenDispatcher::Saved> preprocess(Context& context, const MicroBatch& batch, const Tokens& tokens,
                                                     Router::Load* load) const override;
  RowsInFlight dispatch(Context& context, const MicroBatch& batch, Tensor x,
                        TokenDispatcher::Saved& saved) const override;
  Tensor combine(Context& context, Tensor made, TokenDispatcher::Saved& saved) const override;
  RowsInFlight combine_backward(Context& context, Tensor dsum, TokenDispatcher::Saved& saved) const override;
  Gradients dispatch_backward(Context& context, const MicroBatch& batch, Tensor drows, Tensor dweights,
                              TokenDispatcher::Saved& saved) const override;

 private:
  struct Saved final : TokenDispatcher::Saved {
    ExpertWay way;
  };
  // Where sizes follow the data: the host waits for `counts` of `pairs`, and for the counts of all ranks.
  void read_sizes(Context& context, const Tensor& counts, std::int64_t pairs, Saved& saved) const;
  // The rows that come from each rank for each expert here, [ranks, experts here] i64.
  Tensor exchanged(Context& context, const Tensor& counts, const Shape& shape) const;

  ExpertShares shares_;
  Permutation permutation_;
  DispatchWays ways_;
  Axes counted_along_;  // other ranks that dispatch tokens which are balanced together with this rank's
  RowExchange exchange_;
  bool captured_;
  CapturedPiece plan_, permute_, permute_back_;
};

}  // namespace mbench::nn
