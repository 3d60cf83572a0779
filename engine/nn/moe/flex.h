// A token goes once to each rank of ep that has any of its experts, which sums what those make of it: Megatron-Core's
// MoEFlexTokenDispatcher over DeepEP or HybridEP. How tokens visit ranks is RankVisits.
#pragma once
#include "engine/nn/moe/own_experts.h"
#include "engine/nn/moe/rank_visits.h"

namespace mbench::nn {

class Flex final : public TokenDispatcher {
 public:
  Flex(const Plan& plan, const MoeSpec& spec);
  void charge_host(Context& context) const override { context.device.host_work(HostWork::moe); }
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
    RankWay visits;
    Tensor visitors;  // between preprocess() and dispatch(): the tokens that came, [received, 1, width]
  };
  // Where a framework makes rows of the arrived tokens by small ops; the host waits for some of them.
  enum class Pass { forward, backward };
  void make_token_map(Context& context, Pass pass) const;
  // [..., width], of the tokens that this rank dispatches.
  static Shape own_tokens(const Saved& saved, std::int64_t width);

  OwnExperts own_;
  RankVisits visits_;
  DispatchWays ways_;
};

}  // namespace mbench::nn
