// Multi-head latent attention (DeepSeek-V2): queries, and keys and values together, are products of normed latents, vectors
// of low rank that one linear layer makes of hidden activations. A head's query and key have columns that are turned to their
// position and columns that are not; the turned ones of the key are the same for all heads.
//
// Every rank has the weights of the latents whole and makes those of its own part of the sequence; the latents and the shared
// columns of the key are what is gathered, for the heads, which are split.
//
// Of each head the turned columns come first. DeepSeek has them last and turns neighbouring columns together, i and i + 1 where
// Rotary turns i and i + n / 2: its checkpoints differ by that order of the weights' rows (scripts/fixtures/transformers_models.py).
#pragma once
#include <optional>

#include "engine/nn/attention_core.h"
#include "engine/nn/columns_norm.h"
#include "engine/nn/linear.h"
#include "engine/nn/mixer.h"
#include "engine/nn/recompute.h"

namespace mbench {

class LatentAttention final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    // What is made of the latents.
    struct Up {
      Linear::Saved q, kv;
      Tensor q_rstd, kv_rstd;
      Tensor queries;          // [seq, batch, local heads, (turned, plain)]
      Tensor keys_and_values;  // [seq, batch, local heads, (turned, plain, value)]
    };
    Linear::Saved down, proj;
    Tensor
        latents;  // [local seq, batch, (of queries, of keys and values, the key's turned columns)] before their norms
    Up up;
    bool straight = false;  // whether queries are made of the input
    std::vector<Tensor*> inputs() override {
      if (straight) return {&down.x, &up.q.x};
      return {&down.x};
    }
    AttentionCore::Saved core;
    Shape queries_shape, keys_shape;
    bool kept_by_core = false;  // queries, keys and values, which are not here then
  };
  LatentAttention(ParameterStore& store, const Plan& plan, const LatentAttentionSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  Tensor bias() const override { return proj_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  AttentionSizes sizes(const Context& context, const Shape& queries) const;
  AttentionParts parts_of(const Tensor& queries, const Tensor& keys_and_values) const;
  // The first columns of every head turned to their position, or the gradient back. [seq, batch, heads, width].
  void turn(Context& context, const Tensor& heads, bool back) const;

  void make_up(Context& context, Tensor x, Saved& saved) const;
  Tensor make_queries(Context& context, Tensor x, Saved& saved) const;
  Tensor make_keys_and_values(Context& context, Saved& saved) const;
  // Their gradients go on into those of the latents; of queries made straight from x, that of x is returned.
  Tensor queries_back(Context& context, Tensor gradient, const Tensor& dlatents, Saved& saved) const;
  void keys_and_values_back(Context& context, Tensor gradient, const Tensor& dlatents, Saved& saved) const;

  LatentAttentionSpec spec_;
  Axes head_axes_;     // along which the heads are split
  Transition shared_;  // of the key's shared columns, from where the latents lie to where heads want them
  Linear down_;
  std::optional<ColumnsNorm> q_norm_;
  ColumnsNorm kv_norm_;
  Linear q_, kv_, proj_;
  std::uint64_t dropout_site_;
  std::unique_ptr<AttentionCore> core_;
  Checkpoint core_checkpoint_, up_checkpoint_;
};

}  // namespace mbench
