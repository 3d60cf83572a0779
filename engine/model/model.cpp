#include "engine/model/model.h"

#include <algorithm>
#include <utility>

namespace mbench {

ModelChunk::ModelChunk(ParameterStore& store, const Plan& plan, const ChunkPlan& chunk, Parameter* word)
    : store_(store) {
  store.begin_chunk();
  if (chunk.first) {
    embedding_.emplace(store, plan, embedding_of(plan.model, plan.vocab));
    word = embedding_->word();
    parts_.push_back({store.close_unit()});
    names_.push_back({ModelPart::Kind::embedding});
  }
  layers_.reserve(static_cast<std::size_t>(chunk.layers));
  for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i) {
    layers_.emplace_back(store, plan, layer_of(plan.model, i),
                         plan.recompute.at(static_cast<std::size_t>(i)));
    parts_.push_back({store.close_unit()});
    names_.push_back({ModelPart::Kind::layer, static_cast<std::int32_t>(i)});
  }
  if (chunk.last) {
    head_ = std::make_unique<Head>(store, plan, head_of(plan.model, plan.vocab), word);
    const bool tied = plan.model.parts().tied_embedding, ahead = plan.model.mtp_layers > 0;
    if (ahead && !word)
      word = tied ? head_->words().table()
                  : add_word_table_copy(store, plan, embedding_of(plan.model, plan.vocab).word);
    const int head = store.close_unit();
    const auto with = [](std::vector<int> units, int other) {
      if (std::find(units.begin(), units.end(), other) == units.end()) units.push_back(other);
      return units;
    };
    parts_.push_back({head});
    names_.push_back({ModelPart::Kind::head});
    if (word && tied) parts_.back() = with(parts_.back(), word->unit);
    for (std::int64_t i = 0; i < plan.model.mtp_layers; ++i) {
      depths_.emplace_back(store, plan, i, word, head_->words());
      parts_.push_back(with({store.close_unit(), head}, word->unit));
      names_.push_back({ModelPart::Kind::prediction, static_cast<std::int32_t>(i)});
    }
  }
}

ParameterStore::Use ModelChunk::use(std::size_t i, ParameterStore::Gradients gradients,
                                    std::size_t next) const {
  const auto units = [&](std::size_t part) { return part < parts_.size() ? parts_[part] : std::vector<int>(); };
  return store_.use(parts_[i], gradients, units(next), units(next + (next - i)));
}

Tensor ModelChunk::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  constexpr auto kNone = ParameterStore::Gradients::no;
  std::size_t part = 0;
  Tensor hidden = x;
  if (embedding_) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = embedding_->forward(c, batch, saved.embedding);
    ++part;
  }
  saved.layers.resize(layers_.size());
  for (std::size_t i = 0; i < layers_.size(); ++i, ++part) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = layers_[i].forward(c, batch, hidden, saved.layers[i]);
  }
  if (!head_) return hidden;
  {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = head_->forward(c, batch, hidden, saved.head);
    ++part;
  }
  saved.depths.resize(depths_.size());
  for (std::size_t i = 0; i < depths_.size(); ++i, ++part) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = depths_[i].forward(c, batch, hidden, saved.depths[i]);
  }
  return Tensor();
}

Tensor ModelChunk::backward(Context& c, const MicroBatch& batch, Tensor dy, Saved& saved,
                            const Ready& ready) const {
  // Through the parts from the last to the first; before the first there is none.
  std::size_t part = parts_.size();
  const auto through = [&](const auto& run) {
    --part;
    {
      const auto used = use(part, ParameterStore::Gradients::yes, part - 1);
      const InPart here(c.device.memory(), names_[part]);
      run();
    }
    ready(parts_[part].front());
  };
  for (std::size_t i = depths_.size(); i-- > 0;)
    through([&] { dy = depths_[i].backward(c, batch, dy, saved.depths[i]); });
  if (head_) through([&] { dy = head_->backward(c, batch, dy, saved.head); });
  for (std::size_t i = layers_.size(); i-- > 0;)
    through([&] { dy = layers_[i].backward(c, batch, dy, saved.layers[i]); });
  if (!embedding_) return dy;
  through([&] { embedding_->backward(c, batch, dy, saved.embedding); });
  return Tensor();
}

void ModelChunk::make_deferred(Context& c) const {
  if (!head_ || c.deferred.empty()) return;
  const std::size_t head = parts_.size() - 1 - depths_.size();
  const auto used = use(head, ParameterStore::Gradients::yes, parts_.size());
  Linear::make_deferred(c, std::exchange(c.deferred, {}));
}

}  // namespace mbench
