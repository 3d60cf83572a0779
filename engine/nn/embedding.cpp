#include "engine/nn/embedding.h"

#include "engine/nn/communicate.h"
#include "engine/nn/residual.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/run.h"

namespace mbench {

Parameter* add_word_table(ParameterStore& store, const Plan& plan, const TableSpec& table) {
  const LinearPlan& lookup = plan.role(table.role);
  Parameter* p = store.add(weight_of(table), lookup.weight, lookup.consumed.value);
  p->shared_by_ends = plan.model.parts().tied_embedding && plan.mesh.size(Axis::pp) > 1;
  return p;
}

Parameter* add_word_table_copy(ParameterStore& store, const Plan& plan, const TableSpec& table) {
  Parameter* p = add_word_table(store, plan, table);
  p->counted = false;
  return p;
}

InputEmbedding::InputEmbedding(ParameterStore& store, const Plan& plan, const EmbeddingSpec& spec)
    : word_(add_word_table(store, plan, spec.word)), site_(site_of("embedding.dropout")) {
  const LinearPlan& lookup = plan.role(spec.word.role);
  sum_ = Transition::between(lookup.product, lookup.output, plan.mesh);
  const auto add = [&](const TableSpec& table) {
    return store.add(weight_of(table), plan.role(table.role).weight, plan.hidden.value);
  };
  if (spec.position) position_ = add(*spec.position);
  if (spec.token_type) token_type_ = add(*spec.token_type);
  if (spec.norm) norm_.emplace(store, plan, *spec.norm);
}

Tensor InputEmbedding::forward(Context& c, const MicroBatch& batch, Saved& saved) const {
  Tensor y;
  {
    const Tensor words =
        c.activation({c.training().seq, c.training().micro_batch, c.plan.model.hidden}, "embedded words");
    run(c.device, ops::Embedding{batch.tokens, word_->value, words, first_word(c)});
    y = communicate(c, sum_.forward, words);
  }
  const auto add = [&](const Tensor& ids, const Parameter& table) {
    run(c.device, ops::Embedding{ids.slice(c.seq0(), c.local_seq()), table.value, y, 0, true});
  };
  if (position_) add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  if (norm_) y = norm_->forward(c, y, saved.norm);
  const float p = c.dropout();
  if (p == 0) return y;
  if (c.graph().stored_masks)
    saved.mask = c.device.empty(y.shape(), DType::u8, Category::activations, "embedding dropout mask");
  run(c.device, ops::Dropout{y, y, saved.mask, {p, rng_key(c, site_)}, hidden_map(c, batch)});
  return y;
}

void InputEmbedding::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  const float p = c.dropout();
  if (p > 0)
    run(c.device, ops::DropoutGrad{dy, dy, saved.mask, {p, rng_key(c, site_)}, hidden_map(c, batch)});
  if (norm_) dy = norm_->backward(c, dy, Tensor(), saved.norm);
  saved = {};
  const auto add_to = [&](const Tensor& ids, const Tensor& d, const Parameter& table, std::int64_t first) {
    // Of a table autograd is always given a gradient that was made apart, if it is given one.
    if (c.graph().weight_gradients == WeightGradients::in_buffer)
      return run(c.device, ops::EmbeddingGrad{ids, d, table.gradient, first});
    const Tensor made = c.device.empty(table.gradient.shape(), c.dtype(), Category::gradients, "gradient of a table");
    run(c.device, ops::Fill{made, 0});
    run(c.device, ops::EmbeddingGrad{ids, d, made, first});
    run(c.device, ops::Add{table.gradient, made, table.gradient});
  };
  const auto add = [&](const Tensor& ids, const Parameter& table) {
    add_to(ids.slice(c.seq0(), c.local_seq()), dy, table, 0);
  };
  if (position_) add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  const Tensor whole = communicate(c, sum_.backward, dy);
  add_to(batch.tokens, whole, *word_, first_word(c));
}

// The first word of this rank's rows.
std::int64_t InputEmbedding::first_word(const Context& c) const {
  std::int64_t first = 0, rows = word_->spec.shape[0];
  for (int i = kAxes; i-- > 0;) {
    const Axis axis = static_cast<Axis>(i);
    if (!word_->placement[axis].sharded(0)) continue;
    rows /= c.plan.mesh.size(axis);
    first += rows * c.groups.coordinate(axis);
  }
  return first;
}

}  // namespace mbench
