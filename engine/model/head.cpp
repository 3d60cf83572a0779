#include "engine/model/head.h"

#include <utility>

#include "engine/nn/layers/embedding.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/dropout.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/ops/softcap.h"
#include "engine/ops/tanh.h"

namespace mbench::model {
namespace {

nn::CrossEntropy::Targets word_targets(const nn::MicroBatch& b) {
  const std::int64_t rows = b.labels.numel();
  return {b.labels.view({rows}), b.weights.view({rows}), b.inv_weight_sum, b.gradient_scale, b.factors_of(0)};
}

nn::CrossEntropy::Targets class_targets(const nn::MicroBatch& b) {
  return {b.classes, Tensor(), b.classes_inv_weight_sum, b.gradient_scale,
          b.factors_of(static_cast<std::int64_t>(b.ahead.size()) + 1)};
}

// The table that a tied head takes: the embedding's, or a copy of it.
nn::Parameter* tied_table(nn::ParameterStore& store, const Plan& plan, nn::Parameter* word) {
  if (word) return word;
  return nn::add_word_table_copy(store, plan, embedding_of(plan.model, plan.vocab).word);
}

}  // namespace

WordHead::WordHead(nn::ParameterStore& store, const Plan& plan, const HeadSpec& spec, nn::Parameter* word)
    : transform_(spec.transform ? std::optional<Transform>(Transform{nn::Linear(store, plan, spec.transform->dense),
                                                                     nn::ActivationFunction(spec.transform->activation),
                                                                     nn::Norm(store, plan, spec.transform->norm)})
                                : std::nullopt),
      table_(spec.logits->tied ? tied_table(store, plan, word) : nullptr),
      logits_(spec.logits->tied ? nn::Linear(store, plan, *spec.logits, table_)
                                : nn::Linear(store, plan, *spec.logits)),
      loss_(plan.model.vocab, plan.role(spec.logits->role).output.value, plan.mesh),
      scale_(spec.logit_scale),
      cap_(spec.logit_softcap) {}

void WordHead::forward(nn::Context& c, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
                       Saved& saved) const {
  if (c.keeps().chunked_loss)
    return ChunkedLoss(logits_, loss_, scale_, cap_).forward(c, words, loss, x, saved.chunked);
  Tensor logits;
  if (transform_) {
    const Tensor active = transform_->activation.forward(c, transform_->dense, x, saved.dense, saved.activation);
    const Tensor normed = transform_->norm.forward(c, active, saved.norm);
    logits = logits_.forward_with_bias(c, normed, saved.logits);
  } else {
    logits = logits_.forward_with_bias(c, x, saved.logits);
  }
  if (scale_ != 1) run(c.device, ops::Scale{logits, logits, scale_});
  if (cap_ != 0) {
    saved.uncapped = std::move(logits);
    logits = c.activation(saved.uncapped.shape(), "capped logits");
    run(c.device, ops::Softcap{saved.uncapped, logits, cap_});
  }
  loss_.forward(c, std::move(logits), words, loss, saved.loss);
}

Tensor WordHead::backward(nn::Context& c, const nn::CrossEntropy::Targets& words, Saved& saved) const {
  if (saved.chunked.dx) return ChunkedLoss(logits_, loss_, scale_, cap_).backward(c, saved.chunked);
  const Tensor dlogits = loss_.backward(c, words, saved.loss);
  if (cap_ != 0) run(c.device, ops::SoftcapGrad{dlogits, std::exchange(saved.uncapped, Tensor()), dlogits, cap_});
  if (scale_ != 1) run(c.device, ops::Scale{dlogits, dlogits, scale_});
  const bool deferred = static_cast<std::int64_t>(c.deferred.size()) < c.plan.deferred_gemms;
  const Tensor dx = deferred ? logits_.backward_deferred(c, dlogits, saved.logits, c.deferred.emplace_back())
                             : logits_.backward(c, dlogits, saved.logits);
  if (!transform_) return dx;
  const Tensor dactive = transform_->norm.backward(c, dx, Tensor(), saved.norm);
  return transform_->dense.backward(c, transform_->activation.backward(c, transform_->dense, dactive, saved.activation),
                                    saved.dense);
}

ClassHead::ClassHead(nn::ParameterStore& store, const Plan& plan, const HeadSpec::Classes& spec)
    : gather_(Transition::between(plan.hidden, plan.whole_share(), plan.mesh)),
      pooler_(spec.pooler
                  ? std::optional<nn::Linear>(nn::Linear(store, plan, *spec.pooler, Plan::whole_on(plan.whole_share())))
                  : std::nullopt),
      classifier_(store, plan, spec.classifier, Plan::whole_on(plan.whole_share())),
      loss_(spec.classifier.out, Spread(), plan.mesh) {
  if (!spec.dropout.empty()) site_ = nn::site_of(spec.dropout);
}

// Of the one position.
ops::HiddenMap ClassHead::map_of(const nn::Context& c, const nn::MicroBatch& batch) const {
  return {c.training().seq, c.share().position(c.class_row()), batch.sample0};
}

void ClassHead::forward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& x, const Tensor& loss,
                        Saved& saved) const {
  Tensor read = nn::communicate(c, gather_.forward, x).slice(c.class_row(), 1);
  if (pooler_) {
    saved.pooled = pooler_->forward_with_bias(c, read, saved.pooler);
    run(c.device, ops::Tanh{saved.pooled, saved.pooled});
    read = saved.pooled;
  }
  if (drops(c)) {
    if (c.keeps().stored_masks)
      saved.mask = c.device.empty(read.shape(), DType::u8, Category::activations, "classifier dropout mask");
    const Tensor kept = c.activation(read.shape(), "what the classifier reads");
    run(c.device, ops::Dropout{read, kept, saved.mask, nn::dropout_at(c, *site_), map_of(c, batch)});
    read = kept;
  }
  Tensor logits = classifier_.forward_with_bias(c, read, saved.classifier);
  loss_.forward(c, std::move(logits), class_targets(batch), loss, saved.loss);
}

void ClassHead::backward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& dx, Saved& saved) const {
  Tensor d = classifier_.backward(c, loss_.backward(c, class_targets(batch), saved.loss), saved.classifier);
  if (drops(c))
    run(c.device,
        ops::DropoutGrad{d, d, std::exchange(saved.mask, Tensor()), nn::dropout_at(c, *site_), map_of(c, batch)});
  if (pooler_) {
    run(c.device, ops::TanhGrad{d, saved.pooled, d});
    saved.pooled.reset();
    d = pooler_->backward(c, d, saved.pooler);
  }
  const std::int64_t row = c.class_row() - c.first_row();
  if (row < 0 || row >= c.local_seq()) return;  // the share's position is another rank's
  const Tensor target = dx.slice(row, 1);
  run(c.device, ops::Add{target, d, target});
}

Head::Head(nn::ParameterStore& store, const Plan& plan, const HeadSpec& spec, nn::Parameter* word, std::int64_t ahead)
    : ahead_(static_cast<std::size_t>(ahead)) {
  if (spec.norm) norm_.emplace(store, plan, *spec.norm).set_last();
  if (spec.classes) classes_.emplace(store, plan, *spec.classes);
  if (spec.logits) words_.emplace(store, plan, spec, word);
}

nn::CrossEntropy::Targets targets_ahead(const nn::MicroBatch& batch, std::size_t depth) {
  const nn::MicroBatch::Ahead& own = batch.ahead[depth];
  const std::int64_t rows = own.labels.numel();
  return {own.labels.view({rows}), own.weights.view({rows}), own.inv_weight_sum, own.gradient_scale,
          batch.factors_of(static_cast<std::int64_t>(depth) + 1)};
}

Tensor Head::forward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const {
  if (ahead_ > 0) {  // behind the norm already
    const std::int64_t rows = c.hidden_shape()[0];
    words_->forward(c, word_targets(batch), batch.loss, x.slice(0, rows), saved.words);
    saved.ahead.resize(ahead_);
    for (std::size_t d = 0; d < ahead_; ++d)
      words_->forward(c, targets_ahead(batch, d), batch.ahead[d].loss,
                      x.slice((static_cast<std::int64_t>(d) + 1) * rows, rows), saved.ahead[d]);
    return x;
  }
  const Tensor normed = norm_ ? norm_->forward(c, x, saved.norm) : x;
  if (!words_) {
    classes_->forward(c, batch, normed, batch.loss, saved.classes);
    return normed;
  }
  Tensor order_loss;
  if (classes_) {
    order_loss = c.device.empty({1}, DType::f32, Category::activations, "sentence-order loss");
    classes_->forward(c, batch, normed, order_loss, saved.classes);
  }
  words_->forward(c, word_targets(batch), batch.loss, normed, saved.words);
  if (classes_) run(c.device, ops::Add{batch.loss, order_loss, batch.loss});
  return normed;
}

Tensor Head::backward_ahead(nn::Context& c, const nn::MicroBatch& batch, Saved& saved) const {
  const Shape one = c.hidden_shape();
  const std::int64_t rows = one[0];
  const Tensor dx = c.activation({(static_cast<std::int64_t>(ahead_) + 1) * rows, one[1], one[2]},
                                 "gradient of the model's output and its depths'");
  for (std::size_t d = ahead_; d-- > 0;)
    run(c.device, ops::Copy{words_->backward(c, targets_ahead(batch, d), saved.ahead[d]),
                            dx.slice((static_cast<std::int64_t>(d) + 1) * rows, rows)});
  run(c.device, ops::Copy{words_->backward(c, word_targets(batch), saved.words), dx.slice(0, rows)});
  return dx;
}

Tensor Head::backward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& dused, Saved& saved) const {
  if (ahead_ > 0) return backward_ahead(c, batch, saved);
  Tensor dnormed;
  if (words_) {
    dnormed = words_->backward(c, word_targets(batch), saved.words);
  } else {
    dnormed = c.activation(c.hidden_shape(), "gradient of the model's output");
    run(c.device, ops::Fill{dnormed, 0});
  }
  if (dused) run(c.device, ops::Add{dnormed, dused, dnormed});
  if (classes_) classes_->backward(c, batch, dnormed, saved.classes);
  return norm_ ? norm_->backward(c, dnormed, Tensor(), saved.norm) : dnormed;
}

}  // namespace mbench::model
