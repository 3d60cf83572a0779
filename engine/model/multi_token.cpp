#include "engine/model/multi_token.h"

#include "engine/ops/add.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"

namespace mbench::model {
namespace {

// The projection's outputs are cut as a column's are, and are hidden activations at once.
LinearPlan join_plan(const Plan& plan) {
  LinearPlan join = plan.role(Role::column);
  join.output = plan.hidden;
  return join;
}

// Of joined [.., 2 h] the first half, of words, or the second, of hidden activations.
ops::Matrix half_of(const Tensor& joined, std::int64_t half) {
  const std::int64_t width = joined.shape().cols() / 2;
  return {joined, joined.numel() / (2 * width), width, 2 * width, half * width};
}
ops::Matrix all_of(const Tensor& t) {
  const std::int64_t width = t.shape().cols();
  return {t, t.numel() / width, width, width};
}

}  // namespace

PredictionDepth::Modules::Modules(nn::ParameterStore& store, const Plan& plan, std::int64_t depth,
                                  const DepthSpec& spec, nn::Parameter* word)
    : lookup(plan, word, embedding_of(plan.model, plan.vocab).scale),
      word_norm(store, plan, spec.word_norm),
      hidden_norm(store, plan, spec.hidden_norm),
      join(store, plan, spec.join, join_plan(plan)),
      layer(store, plan, spec.layer, plan.recompute.at(static_cast<std::size_t>(plan.model.layers + depth))),
      norm(store, plan, spec.norm) {}

PredictionDepth::PredictionDepth(nn::ParameterStore& store, const Plan& plan, std::int64_t depth, nn::Parameter* word,
                                 const WordHead* head)
    : depth_(static_cast<std::size_t>(depth)),
      head_(head),
      modules_(std::make_shared<Modules>(store, plan, depth, depth_of(plan.model, depth, plan.vocab), word)) {}

const Tensor& PredictionDepth::words_of(const nn::MicroBatch& batch) const {
  return depth_ == 0 ? batch.labels : batch.ahead[depth_ - 1].labels;
}

Tensor PredictionDepth::forward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& hidden, Saved& saved) const {
  const Modules& m = *modules_;
  const nn::Pass pass(c, repeats_ ? depth_ : 0);
  const Shape shape = hidden.shape();
  const Tensor joined = c.activation({shape[0], shape[1], 2 * shape[2]}, "words and hidden activations, joined");
  {
    const Tensor words = m.word_norm.forward(c, m.lookup.forward(c, words_of(batch)), saved.words);
    run(c.device, ops::CopyBlocks{all_of(words), half_of(joined, 0)});
  }
  run(c.device, ops::CopyBlocks{all_of(m.hidden_norm.forward(c, hidden, saved.hidden)), half_of(joined, 1)});
  const Tensor x = m.join.forward(c, joined, saved.join);
  const Tensor normed = m.norm.forward(c, m.layer.forward(c, batch, x, saved.layer), saved.norm);
  if (head_) head_->forward(c, targets_ahead(batch, depth_), batch.ahead[depth_].loss, normed, saved.head);
  return normed;
}

Tensor PredictionDepth::backward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& dused, Saved& saved) const {
  const Modules& m = *modules_;
  const nn::Pass pass(c, repeats_ ? depth_ : 0);
  Tensor d = dused;
  if (head_) {
    d = head_->backward(c, targets_ahead(batch, depth_), saved.head);
    if (dused) run(c.device, ops::Add{d, dused, d});
  }
  d = m.layer.backward(c, batch, m.norm.backward(c, d, Tensor(), saved.norm), saved.layer);
  const Tensor djoined = m.join.backward(c, d, saved.join);
  const auto half = [&](std::int64_t index) {
    const Tensor part = c.activation(c.hidden_shape(), "gradient of a half of what was joined");
    run(c.device, ops::CopyBlocks{half_of(djoined, index), all_of(part)});
    return part;
  };
  m.lookup.backward(c, words_of(batch), m.word_norm.backward(c, half(0), Tensor(), saved.words));
  return m.hidden_norm.backward(c, half(1), Tensor(), saved.hidden);
}

}  // namespace mbench::model
