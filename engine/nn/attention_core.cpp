#include "engine/nn/attention_core.h"

#include <cmath>

#include "engine/ops/ops.h"

namespace mbench {
namespace {

ops::Matrix heads_of(const Tensor& context, const AttentionSizes& n) {
  return {context, n.seq, n.v_dim, n.matrices() * n.v_dim, 0, n.v_dim};
}

ops::Matrix scores_of(const Tensor& scores) {
  const Shape& s = scores.shape();
  return {scores, s[2], s[3], s[3], 0, s[2] * s[3]};
}

ops::HeadMap head_map(const MicroBatch& batch, const AttentionSizes& n) {
  return {n.heads, n.head0, batch.sample0};
}

void multiply(Context& c, const ops::Matrix& a, const ops::Matrix& b, const ops::Matrix& y,
              std::int64_t batch) {
  ops::Matmul product{a, b, y};
  product.batch = batch;
  run(c.device, product);
}

// Op by op as Megatron-LM's CoreAttention: the probabilities, the dropout mask and the probabilities after
// dropout are kept, 5 bytes an element in 16 bit.
class EagerCore final : public AttentionCore {
 public:
  Tensor forward(Context& c, const MicroBatch& batch, std::uint32_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    // Megatron's baddbmm takes a buffer of the scores' size as its (unused) input and writes to a new tensor.
    if (c.graph().global_buffer) c.buffer.get(c.device, n.scores(), c.dtype());
    const Tensor scores = c.activation(n.scores(), "attention scores");
    multiply(c, parts.q, parts.k.t(), scores_of(scores), n.matrices());
    saved.probs = c.activation(n.scores(), "attention probabilities");
    ops::Softmax softmax{scores, saved.probs, n.scale(), n.causal, {}, {}};
    if (!softmax.causal)
      softmax.mask = batch.attention_mask, softmax.keep = batch.attention_mask ? Tensor() : batch.keep;
    run(c.device, softmax);
    saved.dropped = saved.probs;
    if (c.dropout() > 0) {
      saved.dropped = c.activation(n.scores(), "attention probabilities after dropout");
      if (c.graph().stored_masks)
        saved.mask = c.device.empty(n.scores(), DType::u8, Category::activations, "attention dropout mask");
      run(c.device,
          ops::Dropout{saved.probs, saved.dropped, saved.mask, dropout(c, site), head_map(batch, n)});
    }
    const Tensor context = c.activation(n.context(), "attention context");
    multiply(c, scores_of(saved.dropped), parts.v, heads_of(context, n), n.matrices());
    return context;
  }

  void backward(Context& c, const MicroBatch& batch, std::uint32_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                Saved& saved) const override {
    const ops::Matrix dout = heads_of(dcontext, n);
    Tensor dprobs = c.activation(n.scores(), "gradient of dropped probabilities");
    multiply(c, dout, parts.v.t(), scores_of(dprobs), n.matrices());
    multiply(c, scores_of(saved.dropped).t(), dout, gradients.v, n.matrices());
    saved.dropped.reset();
    if (c.dropout() > 0) {
      const Tensor before = c.activation(n.scores(), "gradient of probabilities");
      run(c.device, ops::DropoutGrad{dprobs, before, saved.mask, dropout(c, site), head_map(batch, n)});
      dprobs = before;
      saved.mask.reset();
    }
    run(c.device, ops::SoftmaxGrad{dprobs, saved.probs, dprobs, n.scale(), n.causal});
    saved.probs.reset();
    multiply(c, scores_of(dprobs), parts.k, gradients.q, n.matrices());
    multiply(c, scores_of(dprobs).t(), parts.q, gradients.k, n.matrices());
  }

 private:
  static ops::DropoutSpec dropout(const Context& c, std::uint32_t site) {
    return {c.dropout(), rng_key(c, site)};
  }
};

// One op for all of it. attention "core" keeps the probabilities; "flash" only the statistics of each row.
class FusedCore final : public AttentionCore {
 public:
  explicit FusedCore(bool keep_probabilities) : keep_probabilities_(keep_probabilities) {}

  Tensor forward(Context& c, const MicroBatch& batch, std::uint32_t site, const AttentionSizes& n,
                 const AttentionParts& parts, Saved& saved) const override {
    saved.lse = c.device.empty({n.batch, n.local_heads, n.seq}, DType::f32, Category::activations,
                               "attention row statistics");
    if (keep_probabilities_) saved.probs = c.activation(n.scores(), "attention probabilities");
    saved.context = c.activation(n.context(), "attention context");
    run(c.device, ops::Attention{shape(c, batch, site, n), parts.q, parts.k, parts.v,
                                 heads_of(saved.context, n), saved.lse, saved.probs});
    return saved.context;
  }

  void backward(Context& c, const MicroBatch& batch, std::uint32_t site, const AttentionSizes& n,
                const Tensor& dcontext, const AttentionParts& parts, const AttentionParts& gradients,
                Saved& saved) const override {
    run(c.device, ops::AttentionGrad{shape(c, batch, site, n), heads_of(dcontext, n), parts.q, parts.k,
                                     parts.v, heads_of(saved.context, n), saved.lse, saved.probs, gradients.q,
                                     gradients.k, gradients.v});
    saved = {};
  }

 private:
  static ops::AttentionShape shape(const Context& c, const MicroBatch& batch, std::uint32_t site,
                                   const AttentionSizes& n) {
    return {n.batch,
            n.local_heads,
            n.seq,
            n.qk_dim,
            n.scale(),
            n.causal,
            n.causal ? Tensor() : batch.keep,
            {c.dropout(), rng_key(c, site)},
            head_map(batch, n)};
  }
  bool keep_probabilities_;
};

}  // namespace

float AttentionSizes::scale() const {
  return 1 / std::sqrt(static_cast<float>(qk_dim));
}

std::unique_ptr<AttentionCore> make_attention_core(const Plan& plan) {
  if (plan.attention == AttentionKind::flash) return std::make_unique<FusedCore>(false);
  if (plan.graph.fused_attention) return std::make_unique<FusedCore>(true);
  return std::make_unique<EagerCore>();
}

}  // namespace mbench
