#include "engine/nn/attention_core.h"

#include <cmath>

#include "engine/ops/ops.h"

namespace mbench {
namespace {

// The views of Q, K, V (part 0, 1, 2) in a qkv tensor: one [seq, head_dim] matrix for each batch * heads +
// head.
ops::Matrix part_of(const Tensor& qkv, std::int64_t part) {
  const Shape& s = qkv.shape();
  const std::int64_t d = s[3] / 3;
  return {qkv, s[0], d, s[1] * s[2] * s[3], part * d, s[3]};
}

ops::Matrix heads_of(const Tensor& context, std::int64_t heads) {
  const Shape& s = context.shape();
  const std::int64_t d = s[2] / heads;
  return {context, s[0], d, s[1] * s[2], 0, d};
}

ops::Matrix scores_of(const Tensor& scores) {
  const Shape& s = scores.shape();
  return {scores, s[2], s[3], s[3], 0, s[2] * s[3]};
}

struct Sizes {
  std::int64_t seq, batch, heads, head_dim;
  explicit Sizes(const Tensor& qkv)
      : seq(qkv.shape()[0]), batch(qkv.shape()[1]), heads(qkv.shape()[2]), head_dim(qkv.shape()[3] / 3) {}
  Shape scores() const { return {batch, heads, seq, seq}; }
  Shape context() const { return {seq, batch, heads * head_dim}; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(head_dim)); }
};

ops::HeadMap head_map(const Context& c, const MicroBatch& batch, std::int64_t local_heads) {
  return {c.point().model.heads, c.tp.rank() * local_heads, batch.sample0};
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
  Tensor forward(Context& c, const MicroBatch& batch, std::uint32_t site, const Tensor& qkv,
                 Saved& saved) const override {
    const Sizes n(qkv);
    const std::int64_t matrices = n.batch * n.heads;
    // Megatron's baddbmm takes a buffer of the scores' size as its (unused) input and writes to a new tensor.
    if (c.graph().global_buffer) c.buffer.get(c.device, n.scores(), c.dtype());
    const Tensor scores = c.activation(n.scores(), "attention scores");
    multiply(c, part_of(qkv, 0), part_of(qkv, 1).t(), scores_of(scores), matrices);
    saved.probs = c.activation(n.scores(), "attention probabilities");
    ops::Softmax softmax{scores, saved.probs, n.scale(), c.point().model.family == Family::gpt};
    if (!softmax.causal)
      softmax.mask = batch.attention_mask, softmax.keep = batch.attention_mask ? Tensor() : batch.keep;
    run(c.device, softmax);
    saved.dropped = saved.probs;
    if (c.point().dropout > 0) {
      saved.dropped = c.activation(n.scores(), "attention probabilities after dropout");
      if (c.graph().stored_masks)
        saved.mask = c.device.empty(n.scores(), DType::u8, Category::activations, "attention dropout mask");
      run(c.device, ops::Dropout{saved.probs, saved.dropped, saved.mask, dropout(c, site),
                                 head_map(c, batch, n.heads)});
    }
    const Tensor context = c.activation(n.context(), "attention context");
    multiply(c, scores_of(saved.dropped), part_of(qkv, 2), heads_of(context, n.heads), matrices);
    return context;
  }

  Tensor backward(Context& c, const MicroBatch& batch, std::uint32_t site, const Tensor& dcontext,
                  const Tensor& qkv, Saved& saved) const override {
    const Sizes n(qkv);
    const std::int64_t matrices = n.batch * n.heads;
    const ops::Matrix dout = heads_of(dcontext, n.heads);
    const Tensor dqkv = c.activation(qkv.shape(), "qkv gradient");
    Tensor dprobs = c.activation(n.scores(), "gradient of dropped probabilities");
    multiply(c, dout, part_of(qkv, 2).t(), scores_of(dprobs), matrices);
    multiply(c, scores_of(saved.dropped).t(), dout, part_of(dqkv, 2), matrices);
    saved.dropped.reset();
    if (c.point().dropout > 0) {
      const Tensor before = c.activation(n.scores(), "gradient of probabilities");
      run(c.device,
          ops::DropoutGrad{dprobs, before, saved.mask, dropout(c, site), head_map(c, batch, n.heads)});
      dprobs = before;
      saved.mask.reset();
    }
    run(c.device,
        ops::SoftmaxGrad{dprobs, saved.probs, dprobs, n.scale(), c.point().model.family == Family::gpt});
    saved.probs.reset();
    multiply(c, scores_of(dprobs), part_of(qkv, 1), part_of(dqkv, 0), matrices);
    multiply(c, scores_of(dprobs).t(), part_of(qkv, 0), part_of(dqkv, 1), matrices);
    return dqkv;
  }

 private:
  static ops::DropoutSpec dropout(const Context& c, std::uint32_t site) {
    return {static_cast<float>(c.point().dropout), rng_key(c, site)};
  }
};

// One op for all of it. attention "core" keeps the probabilities; "flash" only the statistics of each row.
class FusedCore final : public AttentionCore {
 public:
  explicit FusedCore(bool keep_probabilities) : keep_probabilities_(keep_probabilities) {}

  Tensor forward(Context& c, const MicroBatch& batch, std::uint32_t site, const Tensor& qkv,
                 Saved& saved) const override {
    const Sizes n(qkv);
    saved.lse = c.device.empty({n.batch, n.heads, n.seq}, DType::f32, Category::activations,
                               "attention row statistics");
    if (keep_probabilities_) saved.probs = c.activation(n.scores(), "attention probabilities");
    saved.context = c.activation(n.context(), "attention context");
    run(c.device, ops::Attention{shape(c, batch, site, n), part_of(qkv, 0), part_of(qkv, 1), part_of(qkv, 2),
                                 heads_of(saved.context, n.heads), saved.lse, saved.probs});
    return saved.context;
  }

  Tensor backward(Context& c, const MicroBatch& batch, std::uint32_t site, const Tensor& dcontext,
                  const Tensor& qkv, Saved& saved) const override {
    const Sizes n(qkv);
    const Tensor dqkv = c.activation(qkv.shape(), "qkv gradient");
    run(c.device,
        ops::AttentionGrad{shape(c, batch, site, n), heads_of(dcontext, n.heads), part_of(qkv, 0),
                           part_of(qkv, 1), part_of(qkv, 2), heads_of(saved.context, n.heads), saved.lse,
                           saved.probs, part_of(dqkv, 0), part_of(dqkv, 1), part_of(dqkv, 2)});
    saved = {};
    return dqkv;
  }

 private:
  static ops::AttentionShape shape(const Context& c, const MicroBatch& batch, std::uint32_t site,
                                   const Sizes& n) {
    const bool causal = c.point().model.family == Family::gpt;
    return {n.batch,
            n.heads,
            n.seq,
            n.head_dim,
            n.scale(),
            causal,
            causal ? Tensor() : batch.keep,
            {static_cast<float>(c.point().dropout), rng_key(c, site)},
            head_map(c, batch, n.heads)};
  }
  bool keep_probabilities_;
};

}  // namespace

std::unique_ptr<AttentionCore> make_attention_core(const Plan& plan) {
  if (plan.point.attention == AttentionKind::flash) return std::make_unique<FusedCore>(false);
  if (plan.graph.fused_attention) return std::make_unique<FusedCore>(true);
  return std::make_unique<EagerCore>();
}

}  // namespace mbench
