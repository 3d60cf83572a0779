// The end of a model, from the last layer's output to the loss: final norm, then words predicted from every position.
// BERT also predicts the order of two sentences from the first position. The losses add up. Where samples have labels,
// these are predicted instead of words, from one position.
#pragma once
#include <optional>

#include "engine/model/chunked_loss.h"
#include "engine/nn/layers/activation.h"
#include "engine/nn/layers/cross_entropy.h"
#include "engine/nn/layers/norm.h"

namespace mbench::model {

// Logits over the vocabulary, scaled and capped where the model does so, and their cross entropy. In BERT dense, GELU
// and norm come before them.
class WordHead {
 public:
  struct Saved {
    nn::Linear::Saved dense, logits;
    nn::ActivationFunction::Saved activation;
    nn::Norm::Saved norm;
    nn::CrossEntropy::Saved loss;
    Tensor uncapped;             // logits before their cap
    ChunkedLoss::Saved chunked;  // where the framework makes logits of some positions at a time (Keeps::chunked_loss)
  };
  // `word`: the embedding's table, which a tied head shares; null for one that has its own.
  WordHead(nn::ParameterStore& store, const Plan& plan, const HeadSpec& spec, nn::Parameter* word);
  // Writes the loss.
  void forward(nn::Context& context, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
               Saved& saved) const;
  Tensor backward(nn::Context& context, const nn::CrossEntropy::Targets& words, Saved& saved) const;
  nn::Parameter* table() const { return table_; }  // that a tied head shares; else null

 private:
  struct Transform {
    nn::Linear dense;
    nn::ActivationFunction activation;
    nn::Norm norm;
  };
  std::optional<Transform> transform_;
  nn::Parameter* table_;
  nn::Linear logits_;
  nn::CrossEntropy loss_;
  float scale_, cap_;  // of logits
};

// Classes of samples, from one position: the order of two sentences, or labels. A pooler, dense and tanh, where the model has one, dropout,
// a classifier.
class ClassHead {
 public:
  struct Saved {
    nn::Linear::Saved pooler, classifier;
    Tensor pooled, mask;
    nn::CrossEntropy::Saved loss;
  };
  ClassHead(nn::ParameterStore& store, const Plan& plan, const HeadSpec::Classes& spec);
  void forward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& x, const Tensor& loss,
               Saved& saved) const;
  // Adds the gradient of the position to dx, the gradient of all positions.
  void backward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& dx, Saved& saved) const;

 private:
  ops::HiddenMap map_of(const nn::Context& context, const nn::MicroBatch& batch) const;
  bool drops(const nn::Context& context) const { return site_ && context.dropout() > 0; }

  Transition gather_;
  std::optional<nn::Linear> pooler_;
  nn::Linear classifier_;
  nn::CrossEntropy loss_;
  std::optional<std::uint64_t> site_;  // of the dropout
};

// The targets of a depth of multi-token prediction, from 0.
nn::CrossEntropy::Targets targets_ahead(const nn::MicroBatch& batch, std::size_t depth);

class Head {
 public:
  struct Saved {
    nn::Norm::Saved norm;
    WordHead::Saved words;
    ClassHead::Saved classes;
    std::vector<WordHead::Saved> ahead;
  };
  // `word`: the embedding's table where this rank has it, else null. A tied head then makes a copy, whose gradient is
  // summed with the first stage's. `ahead`: how many depths of multi-token prediction an earlier chunk has. Their
  // hidden activations come after the model's along the first dim, and this head predicts their words.
  Head(nn::ParameterStore& store, const Plan& plan, const HeadSpec& spec, nn::Parameter* word, std::int64_t ahead = 0);
  // Writes batch.loss. Returns x after the final norm.
  Tensor forward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // The gradient of x; frees what was saved. `dused`: the gradient of forward's result, if it was used.
  Tensor backward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& dused, Saved& saved) const;
  const WordHead& words() const { return *words_; }

 private:
  Tensor backward_ahead(nn::Context& context, const nn::MicroBatch& batch, Saved& saved) const;

  std::size_t ahead_;
  std::optional<nn::Norm> norm_;
  std::optional<ClassHead> classes_;
  std::optional<WordHead> words_;  // none where samples have labels; made last
};

}  // namespace mbench::model
