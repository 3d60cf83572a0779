// The attention core: from Q, K and V to the context, for every local head. Injected into the layer, so that
// a way of computing attention is a class here and nothing else.
#pragma once
#include <memory>

#include "engine/nn/context.h"
#include "engine/ops/attention.h"

namespace mbench {

class AttentionCore {
 public:
  // Whatever an implementation keeps for its gradient.
  struct Saved {
    Tensor probs, mask, dropped;  // eager: probabilities, dropout mask, probabilities after dropout
    Tensor lse, context;          // fused: row statistics and the output
  };
  virtual ~AttentionCore() = default;
  // qkv is [seq, batch, local heads, 3 * head_dim], Q, K and V of a head side by side; returns
  // [seq, batch, local heads * head_dim]. `site` names the dropout.
  virtual Tensor forward(Context& context, const MicroBatch& batch, std::uint32_t site, const Tensor& qkv,
                         Saved& saved) const = 0;
  // Returns the gradient of qkv; frees what was saved.
  virtual Tensor backward(Context& context, const MicroBatch& batch, std::uint32_t site,
                          const Tensor& dcontext, const Tensor& qkv, Saved& saved) const = 0;
};

std::unique_ptr<AttentionCore> make_attention_core(const Plan& plan);

}  // namespace mbench
