// All ranks of ep get all tokens. Each sums what its own experts make of them, and the sums are reduce-scattered: Megatron-Core's
// MoEAllGatherTokenDispatcher.
#pragma once
#include <optional>

#include "engine/nn/moe/own_experts.h"

namespace mbench::nn {

class AllGather final : public TokenDispatcher {
 public:
  // `host`: what a framework's host also does, if anything.
  AllGather(const Plan& plan, const MoeSpec& spec, std::optional<HostWork> host = std::nullopt);
  void charge_host(Context& context) const override {
    if (host_) context.device.host_work(*host_);
  }
  std::unique_ptr<Saved> preprocess(Context& context, const MicroBatch& batch, const Tokens& tokens,
                                    Router::Load* load) const override;
  RowsInFlight dispatch(Context& context, const MicroBatch& batch, Tensor x, Saved& saved) const override;
  Tensor combine(Context& context, Tensor made, Saved& saved) const override;
  RowsInFlight combine_backward(Context& context, Tensor dsum, Saved& saved) const override;
  Gradients dispatch_backward(Context& context, const MicroBatch& batch, Tensor drows, Tensor dweights,
                              Saved& saved) const override;

 private:
  std::optional<HostWork> host_;
  OwnExperts own_;
  DispatchWays ways_;
};

}  // namespace mbench::nn
