// GPT-2's head: final norm, logits by the tied word table, cross entropy of the next token.
#include "engine/model/head.h"
#include "engine/nn/embedding.h"

namespace mbench {

Parameter* tied_word_table(ParameterStore& store, const Plan& plan, Parameter* word) {
  return word ? word : store.add(word_table(plan, false));
}

namespace {

class GptHead final : public Head {
 public:
  GptHead(ParameterStore& store, const Plan& plan, Parameter* word)
      : norm_(store, plan, "final_norm"),
        logits_(plan, tied_word_table(store, plan, word), plan.logits),
        cross_entropy_(plan.point.model.vocab, true) {}

  void forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const override {
    Tensor logits = logits_.forward(c, norm_.forward(c, x, saved.norm), saved.logits);
    cross_entropy_.forward(c, std::move(logits), targets(batch), batch.loss, saved.words);
  }

  Tensor backward(Context& c, const MicroBatch& batch, Saved& saved) const override {
    const Tensor dnormed =
        logits_.backward(c, cross_entropy_.backward(c, targets(batch), saved.words), saved.logits);
    return norm_.backward(c, dnormed, Tensor(), saved.norm);
  }

 private:
  static CrossEntropy::Targets targets(const MicroBatch& b) {
    const std::int64_t rows = b.labels.numel();
    return {b.labels.view({rows}), b.weights.view({rows}), b.inv_weight_sum, b.gradient_scale};
  }
  Norm norm_;
  Linear logits_;
  CrossEntropy cross_entropy_;
};

}  // namespace

std::unique_ptr<Head> make_gpt_head(ParameterStore& store, const Plan& plan, Parameter* word) {
  return std::make_unique<GptHead>(store, plan, word);
}

}  // namespace mbench
