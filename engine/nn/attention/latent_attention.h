// Multi-head latent attention (DeepSeek-V2). Queries, and keys and values together, are linear in normed latents:
// vectors of low rank that one linear layer makes of hidden activations. Some columns of a head's query and key are
// rotated to their position, the others are not. The rotated columns of the key are the same for all heads.
//
// Every rank has the weights of the latents whole and makes the latents of its own part of the sequence. The latents
// and the shared columns of the key are gathered for the heads, which are split.
//
// The rotated columns of each head come first. DeepSeek has them last and rotates neighbouring columns i and i + 1
// together, where Rotary rotates i and i + n / 2. So its checkpoints have the weights' rows in another order
// (scripts/fixtures/transformers_models.py).
#pragma once
#include <optional>

#include "engine/nn/attention/attention_core.h"
#include "engine/nn/layers/columns_norm.h"
#include "engine/nn/layers/mixer.h"
#include "engine/nn/linear/linear.h"
#include "engine/nn/runtime/offloaded_piece.h"
#include "engine/nn/runtime/recompute.h"

namespace mbench::nn {

class LatentAttention final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    // What is made of the latents.
    struct Up {
      Linear::Saved q, kv;
      Tensor q_rstd, kv_rstd;
      Tensor queries;          // [seq, batch, local heads, (rotated, plain)]
      Tensor keys_and_values;  // [seq, batch, local heads, (rotated, plain, value)]
    };
    Linear::Saved down, proj;
    Tensor latents;  // [local seq, batch, (queries', keys' and values', the key's rotated columns)], before norms
    Up up;
    bool straight = false;  // whether queries are made of the input, without a latent
    std::vector<Tensor*> inputs() override {
      if (straight) return {&down.x, &up.q.x};
      return {&down.x};
    }
    AttentionCore::Saved core;
    Shape queries_shape, keys_shape;
    int qkv_group = -1, core_group = -1, proj_group = -1;  // of what of it is on the host
    bool kept_by_core = false;  // the core keeps queries, keys and values, which are not here then
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
  // Rotates the first columns of every head to their position, or the gradient back. [seq, batch, heads, width].
  void turn(Context& context, const Tensor& heads, bool back) const;

  // Latents, and queries, keys and values of them.
  void project(Context& context, Tensor x, Saved& saved) const;
  void make_up(Context& context, Tensor x, Saved& saved) const;
  Tensor make_queries(Context& context, Tensor x, Saved& saved) const;
  Tensor make_keys_and_values(Context& context, Saved& saved) const;
  // Their gradients go on into the gradients of the latents. Where queries are made straight from x, its gradient is
  // returned.
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
  bool input_again_;  // the norm's output is made again in backward
  OffloadedPiece qkv_piece_, core_piece_, proj_piece_;
};

}  // namespace mbench::nn
