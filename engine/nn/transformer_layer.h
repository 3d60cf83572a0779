// A pre-norm transformer layer, as GPT-2 and Megatron's BERT have it:
// x1 = x + dropout(proj(attention(norm1(x)))); y = x1 + dropout(fc2(gelu(fc1(norm2(x1))))).
#pragma once
#include "engine/nn/attention_core.h"
#include "engine/nn/linear.h"
#include "engine/nn/norm.h"
#include "engine/nn/residual.h"

namespace mbench {

class TransformerLayer {
 public:
  struct Saved {
    Tensor input;  // all that is left of a layer under full recompute
    Norm::Saved norm1, norm2;
    Linear::Saved qkv_linear, proj, fc1, fc2;
    Tensor qkv;  // [seq, batch, heads, 3 * head_dim]
    AttentionCore::Saved core;
    ResidualDropout::Saved residual1, residual2;
    Linear::GeluInput gelu;
  };
  TransformerLayer(ParameterStore& store, const Plan& plan, std::int64_t index);
  Tensor forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;

 private:
  Tensor attention(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor mlp(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor attention_backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  Tensor mlp_backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;

  SavePlan save_;
  Norm norm1_;
  Linear qkv_, proj_;
  Norm norm2_;
  Linear fc1_, fc2_;
  ResidualDropout residual1_, residual2_;
  std::uint32_t attention_site_;
  std::unique_ptr<AttentionCore> core_;
};

}  // namespace mbench
