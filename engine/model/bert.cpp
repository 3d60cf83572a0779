// Megatron BERT's two heads on the final norm. Language model: dense, GELU, norm, logits by the tied word
// table plus a vocabulary bias; loss on masked positions. Sentence order: tanh pooler on the first position,
// a binary classifier. Their losses add up.
#include "engine/model/head.h"
#include "engine/nn/communicate.h"
#include "engine/nn/embedding.h"
#include "engine/ops/ops.h"

namespace mbench {
namespace {

constexpr float kStddev = 0.02f;
constexpr Flow kWhole{replicate, replicate};
// A small layer that every tensor-parallel rank computes as a whole.
constexpr LinearPlan kReplicated{replicate, kWhole, kWhole, kWhole, kWhole};

LinearPlan on_hidden(const Plan& plan) {
  return {replicate, plan.hidden, plan.hidden, plan.hidden, plan.hidden};
}

class BertHead final : public Head {
 public:
  BertHead(ParameterStore& store, const Plan& plan, Parameter* word)
      : gather_(Transition::between(plan.hidden, kWhole, plan.mesh.size(Axis::tp))),
        norm_(store, plan, "final_norm"),
        pooler_(store, plan, "pooler", {plan.point.model.hidden, plan.point.model.hidden}, kReplicated,
                kStddev),
        binary_(store, plan, "binary_head", {plan.point.model.hidden, 2}, kReplicated, kStddev),
        dense_(store, plan, "lm_head.dense", {plan.point.model.hidden, plan.point.model.hidden},
               on_hidden(plan), kStddev),
        lm_norm_(store, plan, "lm_head.norm"),
        word_(tied_word_table(store, plan, word)),
        logits_(plan, word_, plan.logits,
                store.add({.name = "lm_head.bias",
                           .shape = {plan.point.model.padded_vocab(plan.point.tp)},
                           .placement = shard(0)})),
        words_(plan.point.model.vocab, true),
        order_(2, false) {}

  void forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const override {
    const Tensor normed = norm_.forward(c, x, saved.norm);
    const Tensor order_loss = c.device.empty({1}, DType::f32, Category::activations, "sentence-order loss");
    order_forward(c, batch, normed, order_loss, saved);

    Tensor logits;
    {
      const Tensor active = dense_.forward_with_gelu(c, normed, saved.dense, saved.gelu);
      logits = logits_.forward_with_bias(c, lm_norm_.forward(c, active, saved.lm_norm), saved.logits);
    }
    words_.forward(c, std::move(logits), word_targets(batch), batch.loss, saved.words);
    run(c.device, ops::Add{batch.loss, order_loss, batch.loss});
  }

  Tensor backward(Context& c, const MicroBatch& batch, Saved& saved) const override {
    Tensor dnormed;
    {
      const Tensor dlogits = words_.backward(c, word_targets(batch), saved.words);
      const Tensor dactive =
          lm_norm_.backward(c, logits_.backward(c, dlogits, saved.logits), Tensor(), saved.lm_norm);
      run(c.device, ops::BiasGeluGrad{dactive, saved.gelu.x, saved.gelu.bias, dactive});
      saved.gelu = {};
      dnormed = dense_.backward(c, dactive, saved.dense);
    }
    order_backward(c, batch, dnormed, saved);
    return norm_.backward(c, dnormed, Tensor(), saved.norm);
  }

 private:
  void order_forward(Context& c, const MicroBatch& batch, const Tensor& normed, const Tensor& loss,
                     Saved& saved) const {
    const Tensor first = communicate(c, gather_.forward, normed).slice(0, 1);
    saved.pooled = pooler_.forward_with_bias(c, first, saved.pooler);
    run(c.device, ops::Tanh{saved.pooled, saved.pooled});
    Tensor logits = binary_.forward_with_bias(c, saved.pooled, saved.binary);
    order_.forward(c, std::move(logits), order_targets(batch), loss, saved.order);
  }

  // Adds the gradient of the first position to that of the whole sequence.
  void order_backward(Context& c, const MicroBatch& batch, const Tensor& dnormed, Saved& saved) const {
    const Tensor dpooled =
        binary_.backward(c, order_.backward(c, order_targets(batch), saved.order), saved.binary);
    run(c.device, ops::TanhGrad{dpooled, saved.pooled, dpooled});
    saved.pooled.reset();
    const Tensor dfirst = pooler_.backward(c, dpooled, saved.pooler);
    // Where the sequence is split over ranks, the first position is the first rank's.
    if (gather_.backward == Collective::split && c.tp.rank() != 0) return;
    const Tensor target = dnormed.slice(0, 1);
    run(c.device, ops::Add{target, dfirst, target});
  }

  static CrossEntropy::Targets word_targets(const MicroBatch& b) {
    const std::int64_t rows = b.labels.numel();
    return {b.labels.view({rows}), b.weights.view({rows}), b.inv_weight_sum, b.gradient_scale};
  }
  static CrossEntropy::Targets order_targets(const MicroBatch& b) {
    return {b.order_labels, Tensor(), 1.0f / static_cast<float>(b.order_labels.numel()), b.gradient_scale};
  }

  Transition gather_;
  Norm norm_;
  Linear pooler_, binary_, dense_;
  Norm lm_norm_;
  Parameter* word_;
  Linear logits_;
  CrossEntropy words_, order_;
};

}  // namespace

std::unique_ptr<Head> make_bert_head(ParameterStore& store, const Plan& plan, Parameter* word) {
  return std::make_unique<BertHead>(store, plan, word);
}

}  // namespace mbench
