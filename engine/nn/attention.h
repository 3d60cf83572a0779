// Multi-head attention: QKV projection, rotary positions where the model has them, attention core, output projection.
// Heads may share keys and values in groups (grouped-query attention).
#pragma once
#include <optional>

#include "engine/nn/attention_core.h"
#include "engine/nn/linear.h"
#include "engine/nn/mixer.h"
#include "engine/nn/recompute.h"

namespace mbench {

class Attention final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Linear::Saved qkv_linear, kv_linear, proj;
    // [seq, batch, local groups, width]: of a group the queries of its heads, key and value side by side, queries and
    // keys turned to their positions
    Tensor qkv;
    Tensor kv;  // key and value, where they are a linear layer's of their own; qkv has the queries then
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
  AttentionParts parts_of(const Tensor& qkv, const Tensor& kv) const;
  // Queries and keys turned to their positions, or their gradients back.
  void turn(Context& context, const Tensor& qkv, const Tensor& kv, bool back) const;

  AttentionSpec spec_;
  Axes head_axes_;  // along which the heads are split
  // Heads of a group that are on this rank: all, or, where there are fewer heads of keys and values than ranks, some. Then
  // every rank has the weights of all keys and values, whose gradients are summed, and computes those of its own group.
  std::int64_t group_;
  std::optional<Linear> kv_;
  Linear qkv_, proj_;
  std::uint64_t dropout_site_;
  std::unique_ptr<AttentionCore> core_;
  Checkpoint core_checkpoint_;
};

}  // namespace mbench
