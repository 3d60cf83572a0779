// Multi-token prediction (DeepSeek-V3 Technical Report, 2.2; Megatron-Core's MultiTokenPrediction). A depth reads the
// hidden activations after the final norm, its own or the model's, together with the embedded words that were predicted
// from them. It predicts one word further on with the model's own logits. Depths form a chain; each has a layer, norms
// and a projection.
#pragma once
#include <memory>
#include <utility>

#include "engine/model/head.h"
#include "engine/nn/layers/embedding.h"
#include "engine/nn/layers/layer.h"

namespace mbench::model {

class PredictionDepth {
 public:
  struct Saved {
    nn::Norm::Saved words, hidden, norm;
    nn::Linear::Saved join;
    nn::Layer::Saved layer;
    WordHead::Saved head;
  };
  // `depth`: from 0. `word`: the word table on this rank; `head`: the model's, null where it is on another rank.
  PredictionDepth(nn::ParameterStore& store, const Plan& plan, std::int64_t depth, nn::Parameter* word,
                  const WordHead* head);
  // A further depth with the modules, and so the weights, of the one before (Megatron-Core's mtp_use_repeated_layer).
  PredictionDepth repeated() const { return {depth_ + 1, modules_, head_}; }
  // Writes the depth's loss, where the head is. `hidden` and the result lie as hidden activations do, after a norm.
  Tensor forward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& hidden, Saved& saved) const;
  // The gradient of hidden; frees what was saved. `dused`: the gradient of forward's result, if a further depth or
  // another chunk used it.
  Tensor backward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& dused, Saved& saved) const;
  void after_step(nn::Context& context) const {
    if (!repeats_) modules_->layer.after_step(context);
  }

 private:
  struct Modules {
    Modules(nn::ParameterStore& store, const Plan& plan, std::int64_t depth, const DepthSpec& spec,
            nn::Parameter* word);
    nn::WordLookup lookup;
    nn::Norm word_norm, hidden_norm;
    nn::Linear join;
    nn::Layer layer;
    nn::Norm norm;
  };
  PredictionDepth(std::size_t depth, std::shared_ptr<const Modules> modules, const WordHead* head)
      : depth_(depth), repeats_(true), head_(head), modules_(std::move(modules)) {}
  const Tensor& words_of(const nn::MicroBatch& batch) const;

  std::size_t depth_;
  bool repeats_ = false;
  const WordHead* head_;
  std::shared_ptr<const Modules> modules_;
};

}  // namespace mbench::model
