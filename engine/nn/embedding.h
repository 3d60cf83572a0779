// Input embedding: word (split by vocabulary over tp) + position (+ token type for BERT), then dropout.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class InputEmbedding {
 public:
  struct Saved {
    Tensor mask;
  };
  InputEmbedding(ParameterStore& store, const Plan& plan);
  Tensor forward(Context& context, const MicroBatch& batch, Saved& saved) const;
  void backward(Context& context, const MicroBatch& batch, const Tensor& dy, Saved& saved) const;
  Parameter* word() const { return word_; }

 private:
  Parameter *word_, *position_, *token_type_ = nullptr;
  Transition sum_;
  std::uint32_t site_;
};

// The word table [padded vocabulary, hidden]; made again as a copy on the last stage of a pipeline.
Parameter word_table(const Plan& plan, bool counted);

}  // namespace mbench
