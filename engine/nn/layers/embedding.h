// Input embedding: word + position + token type, as far as the model has them, a norm where layers have theirs last,
// then dropout.
#pragma once
#include <optional>

#include "engine/nn/layers/norm.h"
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

// Rows of the table of words, wherever the table's rows lie.
class WordLookup {
 public:
  WordLookup(const Plan& plan, Parameter* word, float scale = 1);
  // tokens [seq, batch] -> [seq, batch, hidden] as hidden activations lie, times `scale`.
  Tensor forward(Context& context, const Tensor& tokens) const;
  // Adds to the table's gradient.
  void backward(Context& context, const Tensor& tokens, const Tensor& dy) const;

 private:
  std::int64_t first_word(const Context& context) const;
  Parameter* word_;
  float scale_;
  Transition sum_;
};

class InputEmbedding {
 public:
  struct Saved {
    Norm::Saved norm;
    Tensor mask;
  };
  InputEmbedding(ParameterStore& store, const Plan& plan, const EmbeddingSpec& spec);
  Tensor forward(Context& context, const MicroBatch& batch, Saved& saved) const;
  // dy is the callee's to overwrite.
  void backward(Context& context, const MicroBatch& batch, Tensor dy, Saved& saved) const;
  Parameter* word() const { return word_; }

 private:
  Parameter *word_, *position_ = nullptr, *token_type_ = nullptr;
  WordLookup lookup_;
  std::optional<Norm> norm_;
  std::uint64_t site_;
};

// The table of words, laid out as the plan says for a vocabulary.
Parameter* add_word_table(ParameterStore& store, const Plan& plan, const TableSpec& table);
// A copy of it on the last stage of a pipeline, for a tied head or multi-token prediction: both are trained as one.
Parameter* add_word_table_copy(ParameterStore& store, const Plan& plan, const TableSpec& table);

}  // namespace mbench::nn
