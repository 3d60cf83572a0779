// Multi-head attention: QKV projection, attention core, output projection.
#pragma once
#include "engine/nn/attention_core.h"
#include "engine/nn/linear.h"
#include "engine/nn/mixer.h"
#include "engine/nn/recompute.h"

namespace mbench {

class Attention final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Linear::Saved qkv_linear, proj;
    Tensor qkv;  // [seq, batch, local heads, 3 * head_dim]: Q, K and V of a head side by side
    AttentionCore::Saved core;
  };
  Attention(ParameterStore& store, const Plan& plan, const AttentionSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return proj_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  AttentionSizes sizes(const Context& context, const Tensor& qkv) const;

  AttentionSpec spec_;
  Axes head_axes_;  // along which the heads are split
  Linear qkv_, proj_;
  std::uint32_t dropout_site_;
  std::unique_ptr<AttentionCore> core_;
  Checkpoint core_checkpoint_;
};

}  // namespace mbench
