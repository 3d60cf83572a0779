#include "engine/nn/embedding.h"

#include "engine/nn/communicate.h"
#include "engine/nn/residual.h"
#include "engine/ops/ops.h"

namespace mbench {

Parameter word_table(const Plan& plan, bool counted) {
  const ModelSpec& m = plan.point.model;
  return {.name = "embedding.word",
          .shape = {m.padded_vocab(plan.point.tp), m.hidden},
          .placement = plan.embedding.weight,
          .stddev = 0.02f,
          .counted = counted};
}

InputEmbedding::InputEmbedding(ParameterStore& store, const Plan& plan)
    : sum_(Transition::between(plan.embedding.product, plan.embedding.output, plan.mesh.size(Axis::tp))),
      site_(site_of("embedding.dropout")) {
  const ModelSpec& m = plan.point.model;
  const bool partial = plan.hidden_is_sharded();
  word_ = store.add(word_table(plan, true));
  position_ = store.add({.name = "embedding.position",
                         .shape = {m.positions, m.hidden},
                         .stddev = 0.02f,
                         .partial_over_tp = partial});
  if (m.family == Family::bert)
    token_type_ = store.add({.name = "embedding.token_type",
                             .shape = {2, m.hidden},
                             .stddev = 0.02f,
                             .partial_over_tp = partial});
}

Tensor InputEmbedding::forward(Context& c, const MicroBatch& batch, Saved& saved) const {
  Tensor y;
  {
    const Tensor words =
        c.activation({c.point().seq, c.point().micro_batch, c.point().model.hidden}, "embedded words");
    run(c.device, ops::Embedding{batch.tokens, word_->value, words, c.tp.rank() * word_->local[0]});
    y = communicate(c, sum_.forward, words);
  }
  const auto add = [&](const Tensor& ids, const Parameter& table) {
    run(c.device, ops::Embedding{ids.slice(c.seq0(), c.local_seq()), table.value, y, 0, true});
  };
  add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  const float p = static_cast<float>(c.point().dropout);
  if (p == 0) return y;
  if (c.graph().stored_masks)
    saved.mask = c.device.empty(y.shape(), DType::u8, Category::activations, "embedding dropout mask");
  run(c.device, ops::Dropout{y, y, saved.mask, {p, rng_key(c, site_)}, hidden_map(c, batch)});
  return y;
}

void InputEmbedding::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  const float p = static_cast<float>(c.point().dropout);
  if (p > 0)
    run(c.device, ops::DropoutGrad{dy, dy, saved.mask, {p, rng_key(c, site_)}, hidden_map(c, batch)});
  saved = {};
  const auto add = [&](const Tensor& ids, const Parameter& table) {
    run(c.device, ops::EmbeddingGrad{ids.slice(c.seq0(), c.local_seq()), dy, table.gradient});
  };
  add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  const Tensor whole = communicate(c, sum_.backward, dy);
  run(c.device, ops::EmbeddingGrad{batch.tokens, whole, word_->gradient, c.tp.rank() * word_->local[0]});
}

}  // namespace mbench
