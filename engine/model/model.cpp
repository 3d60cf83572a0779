#include "engine/model/model.h"

namespace mbench {

ModelChunk::ModelChunk(ParameterStore& store, const Plan& plan, const ChunkPlan& chunk, Parameter* word)
    : store_(store) {
  if (chunk.first) {
    embedding_.emplace(store, plan, embedding_of(plan.model, plan.vocab));
    word = embedding_->word();
    embedding_unit_ = store.close_unit();
  }
  layers_.reserve(static_cast<std::size_t>(chunk.layers));
  first_layer_unit_ = store.unit_count();
  for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i) {
    layers_.emplace_back(store, plan, layer_of(plan.model, i),
                         plan.recompute.at(static_cast<std::size_t>(i)));
    store.close_unit();
  }
  if (chunk.last) {
    head_.emplace(store, plan, head_of(plan.model, plan.vocab), word);
    head_unit_ = store.close_unit();
    word_unit_ = word ? word->unit : head_unit_;
  }
}

Tensor ModelChunk::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor hidden = x;
  if (embedding_) {
    const auto use = store_.use(embedding_unit_);
    hidden = embedding_->forward(c, batch, saved.embedding);
  }
  saved.layers.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto use = store_.use(first_layer_unit_ + static_cast<int>(i));
    hidden = layers_[i].forward(c, batch, hidden, saved.layers[i]);
  }
  if (!head_) return hidden;
  const auto use = store_.use(head_unit_), use_words = store_.use(word_unit_);
  head_->forward(c, batch, hidden, saved.head);
  return Tensor();
}

Tensor ModelChunk::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved,
                            const Ready& ready) const {
  if (head_) {
    {
      const auto use = store_.use(head_unit_), use_words = store_.use(word_unit_);
      dy = head_->backward(c, batch, saved.head);
    }
    ready(head_unit_);
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const int unit = first_layer_unit_ + static_cast<int>(i);
    {
      const auto use = store_.use(unit);
      dy = layers_[i].backward(c, batch, dy, saved.layers[i]);
    }
    ready(unit);
  }
  if (!embedding_) return dy;
  {
    const auto use = store_.use(embedding_unit_);
    embedding_->backward(c, batch, dy, saved.embedding);
  }
  ready(embedding_unit_);
  return Tensor();
}

}  // namespace mbench
