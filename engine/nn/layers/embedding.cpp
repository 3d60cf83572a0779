#include "engine/nn/layers/embedding.h"

#include "engine/nn/layers/residual.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"

namespace mbench::nn {
namespace {

// Adds the gradient of a table's rows. Where autograd is given weights' gradients at all, a table's is always made apart.
void add_to(Context& c, const Tensor& ids, const Tensor& dy, Parameter& table, std::int64_t first) {
  if (!table.trains) return;
  zero_if_stale(c.device, table);
  if (c.weight_gradients() == WeightGradients::in_buffer)
    return run(c.device, ops::EmbeddingGrad{ids, dy, table.gradient, first});
  const Tensor made = c.device.empty(table.gradient.shape(), c.dtype(), Category::gradients, "gradient of a table");
  run(c.device, ops::Fill{made, 0});
  run(c.device, ops::EmbeddingGrad{ids, dy, made, first});
  run(c.device, ops::Add{table.gradient, made, table.gradient});
}

}  // namespace

Parameter* add_word_table(ParameterStore& store, const Plan& plan, const TableSpec& table) {
  const LinearPlan& lookup = plan.role(table.role);
  Parameter* p = store.add(weight_of(table), lookup.weight, lookup.consumed.value);
  const bool both_ends = plan.model.ties_embedding() || plan.model.mtp_layers > 0;
  p->shared_by_ends = both_ends && plan.stages_with_words().size() > 1;
  return p;
}

Parameter* add_word_table_copy(ParameterStore& store, const Plan& plan, const TableSpec& table) {
  Parameter* p = add_word_table(store, plan, table);
  p->counted = false;
  return p;
}

InputEmbedding::InputEmbedding(ParameterStore& store, const Plan& plan, const EmbeddingSpec& spec)
    : word_(add_word_table(store, plan, spec.word)),
      lookup_(plan, word_, spec.scale),
      site_(site_of("embedding.dropout")) {
  const auto add = [&](const TableSpec& table) {
    return store.add(weight_of(table), plan.role(table.role).weight, plan.hidden.value);
  };
  if (spec.position) position_ = add(*spec.position);
  if (spec.token_type) token_type_ = add(*spec.token_type);
  if (spec.norm) norm_.emplace(store, plan, *spec.norm);
}

Tensor InputEmbedding::forward(Context& c, const MicroBatch& batch, Saved& saved) const {
  Tensor y = lookup_.forward(c, batch.tokens);
  const auto add = [&](const Tensor& ids, const Parameter& table) {
    run(c.device, ops::Embedding{ids.slice(c.first_row(), c.local_seq()), table.value, y, 0, true});
  };
  if (position_) add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  if (norm_) y = norm_->forward(c, y, saved.norm);
  const float p = c.dropout();
  if (p == 0) return y;
  if (c.keeps().stored_masks)
    saved.mask = c.device.empty(y.shape(), DType::u8, Category::activations, "embedding dropout mask");
  run(c.device, ops::Dropout{y, y, saved.mask, dropout_at(c, site_), hidden_map(c, batch)});
  return y;
}

void InputEmbedding::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved) const {
  const float p = c.dropout();
  if (p > 0) run(c.device, ops::DropoutGrad{dy, dy, saved.mask, dropout_at(c, site_), hidden_map(c, batch)});
  if (norm_) dy = norm_->backward(c, dy, Tensor(), saved.norm);
  saved = {};
  const auto add = [&](const Tensor& ids, Parameter& table) {
    add_to(c, ids.slice(c.first_row(), c.local_seq()), dy, table, 0);
  };
  if (position_) add(batch.positions, *position_);
  if (token_type_) add(batch.token_types, *token_type_);
  lookup_.backward(c, batch.tokens, dy);
}

WordLookup::WordLookup(const Plan& plan, Parameter* word, float scale) : word_(word), scale_(scale) {
  const LinearPlan& lookup = plan.role(word->spec.role);
  sum_ = Transition::between(lookup.gemm, lookup.output, plan.mesh);
}

Tensor WordLookup::forward(Context& c, const Tensor& tokens) const {
  const Tensor words =
      c.activation({c.share().rows(), c.training().micro_batch, c.plan.model.hidden}, "embedded words");
  run(c.device, ops::Embedding{tokens, word_->value, words, first_word(c)});
  const Tensor y = communicate(c, sum_.forward, words);
  if (scale_ != 1) run(c.device, ops::Scale{y, y, scale_});
  return y;
}

void WordLookup::backward(Context& c, const Tensor& tokens, const Tensor& dy) const {
  Tensor dwords = dy;
  if (scale_ != 1) {
    dwords = c.activation(dy.shape(), "gradient of embedded words");
    run(c.device, ops::Scale{dy, dwords, scale_});
  }
  const Tensor whole = communicate(c, sum_.backward, dwords);
  add_to(c, tokens, whole, *word_, first_word(c));
}

// The first word of this rank's rows.
std::int64_t WordLookup::first_word(const Context& c) const {
  std::int64_t first = 0, rows = word_->spec.shape[0];
  for (int i = kAxes; i-- > 0;) {
    const Axis axis = static_cast<Axis>(i);
    if (!word_->placement[axis].sharded(0)) continue;
    rows /= c.plan.mesh.size(axis);
    first += rows * c.groups.coordinate(axis);
  }
  return first;
}

}  // namespace mbench::nn
