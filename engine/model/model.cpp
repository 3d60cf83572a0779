#include "engine/model/model.h"

namespace mbench {
namespace {

struct FamilyParts {
  Family family;
  std::unique_ptr<Head> (*make_head)(ParameterStore&, const Plan&, Parameter*);
};

// What a family has of its own; embedding and layers are shared. To add a family: a head and a line.
constexpr FamilyParts kFamilies[] = {{Family::gpt, make_gpt_head}, {Family::bert, make_bert_head}};

const FamilyParts& parts_of(Family family) {
  for (const FamilyParts& f : kFamilies)
    if (f.family == family) return f;
  fail(ErrorKind::unsupported, "model", "no engine for family {}", name_of(family));
}

}  // namespace

ModelChunk::ModelChunk(ParameterStore& store, const Plan& plan, const ChunkPlan& chunk, Parameter* word) {
  first_unit_ = -1;
  const auto close = [&] {
    last_unit_ = store.close_unit();
    if (first_unit_ < 0) first_unit_ = last_unit_;
  };
  if (chunk.first) {
    embedding_.emplace(store, plan);
    word = embedding_->word();
    close();
  }
  layers_.reserve(static_cast<std::size_t>(chunk.layers));
  for (std::int64_t i = 0; i < chunk.layers; ++i) {
    layers_.emplace_back(store, plan, chunk.first_layer + i);
    close();
  }
  if (chunk.last) {
    head_ = parts_of(plan.point.model.family).make_head(store, plan, word);
    close();
  }
}

Tensor ModelChunk::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  Tensor hidden = embedding_ ? embedding_->forward(c, batch, saved.embedding) : x;
  saved.layers.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i)
    hidden = layers_[i].forward(c, batch, hidden, saved.layers[i]);
  if (!head_) return hidden;
  head_->forward(c, batch, hidden, saved.head);
  return Tensor();
}

Tensor ModelChunk::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved,
                            const Ready& ready) const {
  int unit = last_unit_;
  if (head_) {
    dy = head_->backward(c, batch, saved.head);
    ready(unit--);
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    dy = layers_[i].backward(c, batch, dy, saved.layers[i]);
    ready(unit--);
  }
  if (!embedding_) return dy;
  embedding_->backward(c, batch, dy, saved.embedding);
  ready(unit);
  return Tensor();
}

}  // namespace mbench
