// The end of a model: from the last layer's output to the loss. One class per family.
#pragma once
#include <memory>

#include "engine/nn/cross_entropy.h"
#include "engine/nn/linear.h"
#include "engine/nn/norm.h"

namespace mbench {

class Head {
 public:
  struct Saved {
    Norm::Saved norm, lm_norm;
    Linear::Saved logits, dense, pooler, binary;
    CrossEntropy::Saved words, order;
    Linear::GeluInput gelu;
    Tensor pooled;
  };
  virtual ~Head() = default;
  // Writes batch.loss.
  virtual void forward(Context& context, const MicroBatch& batch, const Tensor& x, Saved& saved) const = 0;
  // The gradient of x; frees what was saved.
  virtual Tensor backward(Context& context, const MicroBatch& batch, Saved& saved) const = 0;
};

// `word` is the embedding's table where this rank has it (tied), else null: a copy is made, whose gradient is
// summed with the first stage's.
std::unique_ptr<Head> make_gpt_head(ParameterStore& store, const Plan& plan, Parameter* word);
std::unique_ptr<Head> make_bert_head(ParameterStore& store, const Plan& plan, Parameter* word);

// That copy, or `word` itself.
Parameter* tied_word_table(ParameterStore& store, const Plan& plan, Parameter* word);

}  // namespace mbench
