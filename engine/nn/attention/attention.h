// Multi-head attention: QKV projection, norms of queries and keys and rotary positions where the model has them, attention
// core, output projection.
// Heads may share keys and values in groups (grouped-query attention).
#pragma once
#include <optional>

#include "engine/nn/attention/attention_core.h"
#include "engine/nn/layers/all_heads_norm.h"
#include "engine/nn/layers/columns_norm.h"
#include "engine/nn/layers/mixer.h"
#include "engine/nn/linear/linear.h"
#include "engine/nn/runtime/offloaded_piece.h"
#include "engine/nn/runtime/recompute.h"

namespace mbench::nn {

class Attention final : public Mixer {
 public:
  struct Saved final : Mixer::Saved {
    Linear::Saved qkv_linear, kv_linear, proj;
    // [seq, batch, local groups, width]: a group has the queries of its heads, then its key and its value. Queries and
    // keys are already rotated to their positions, unless norms come before that.
    Tensor qkv;
    Tensor kv;  // key and value, where they have a linear layer of their own; qkv has only the queries then
    // In place of qkv, where every second GEMM is kept. Each has a GEMM of its own: [seq, batch, local groups, its
    // heads' columns], queries and keys rotated.
    Tensor q, k, v;
    Tensor ungated;  // the core's output, where a gate multiplies it
    Tensor output;   // likewise, where a reduce-scatter sums it, which is not done again
    // With norms: the queries and key of each group, normed and rotated. The norms' gradients need qkv and kv as they
    // were.
    Tensor normed, q_rstd, k_rstd;
    // Under autocast, of what several linear layers read: the casts that belong to those that the engine has in one.
    std::vector<Tensor> casts;
    AttentionCore::Saved core;
    Shape qkv_shape, kv_shape;
    bool kept_by_core = false;                             // the core keeps Q, K and V, which are not here then
    bool separate_keys = false;                            // whether kv_linear is there
    int qkv_group = -1, core_group = -1, proj_group = -1;  // of what of it is on the host
    std::vector<Tensor*> inputs() override {
      if (separate_keys) return {&qkv_linear.x, &kv_linear.x};
      return {&qkv_linear.x};
    }
  };
  Attention(ParameterStore& store, const Plan& plan, const AttentionSpec& spec, Regions drop);
  Tensor forward(Context& context, const MicroBatch& batch, Tensor x,
                 std::unique_ptr<Mixer::Saved>& saved) const override;
  void keep_alternate_gemms(Mixer::Saved& saved) const override;
  Tensor make_others(Context& context, const MicroBatch& batch, Tensor x, Mixer::Saved& saved,
                     bool output) const override;
  Tensor bias() const override { return proj_.bias(); }
  Tensor backward(Context& context, const MicroBatch& batch, Tensor dy,
                  std::unique_ptr<Mixer::Saved>& saved) const override;

 private:
  AttentionSizes sizes(const Context& context, const Shape& qkv) const;
  // Queries, keys and values as the linear layers make them.
  void project(Context& context, Tensor x, Saved& saved) const;
  // From queries, keys and values, already computed, to the output.
  Tensor qkv_gradient(Context& context, const Saved& saved) const;
  Tensor attend(Context& context, const MicroBatch& batch, Saved& saved) const;
  // `normed`: holds queries and keys in their place, if it is not empty.
  AttentionParts parts_of(const Tensor& qkv, const Tensor& kv, const Tensor& normed) const;
  // The parts of what was saved, wherever it lies.
  AttentionParts parts_of(const Saved& saved) const;
  // Where Q, K and V have separate GEMMs: `columns` columns of every group, from column `first` on.
  Tensor part(Context& context, const Linear::Arrived& arrived, std::int64_t first, std::int64_t columns) const;
  Tensor turned(Context& context, Tensor heads) const;
  // Multiplies queries, or their gradients, by what their positions have.
  void scale_queries(Context& context, const Tensor& qkv) const;
  Tensor keys(Context& context, const Linear::Arrived& arrived) const;
  // `count` heads of every group, from head `first` on, for the norms.
  ops::Matrix heads_of(const Tensor& t, std::int64_t first, std::int64_t count) const;
  // Columns of a group behind its value: a gate for each of its heads' outputs.
  std::int64_t gates() const { return spec_.gate ? group_ * spec_.v_dim : 0; }
  std::int64_t first_gate() const { return (group_ + 1) * spec_.qk_dim + spec_.v_dim; }
  bool norms() const { return q_norm_ || all_q_norm_; }
  void norm(Context& context, Saved& saved) const;
  void norm_back(Context& context, const Tensor& dqkv, const Tensor& dkv, Saved& saved) const;
  // Rotates queries and keys to their positions, or their gradients back.
  void turn(Context& context, const Tensor& qkv, const Tensor& kv, bool back) const;

  AttentionSpec spec_;
  DocumentsOrNone documents_;  // which of the sequence's positions see one another, optional
  Axes head_axes_;             // along which the heads are split
  // How many heads of a group are on this rank: all, or some where there are fewer heads of keys and values than ranks.
  // Then every rank has the weights of all keys and values, whose gradients are summed, and computes only those of its
  // own group.
  std::int64_t group_;
  std::optional<Linear> kv_;
  Linear qkv_;
  std::optional<ColumnsNorm> q_norm_, k_norm_;
  std::optional<AllHeadsNorm> all_q_norm_, all_k_norm_;  // in their place
  Parameter* sinks_ = nullptr;
  Linear proj_;
  std::uint64_t dropout_site_;
  std::unique_ptr<AttentionCore> core_;
  Checkpoint core_checkpoint_;
  OffloadedPiece qkv_piece_, core_piece_, proj_piece_;
  bool separate_;  // queries, keys and values have separate GEMMs, and every second one is kept
};

}  // namespace mbench::nn
