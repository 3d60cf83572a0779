#include "engine/model/model.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::model {

ModelChunk::ModelChunk(nn::ParameterStore& store, const Plan& plan, const ChunkPlan& chunk, nn::Parameter* word)
    : store_(store), offloaded_(plan.offloaded), min_offloaded_elements_(plan.min_offloaded_elements) {
  store.begin_chunk();
  if (chunk.first) {
    embedding_.emplace(store, plan, embedding_of(plan.model, plan.vocab));
    word = embedding_->word();
    parts_.push_back({store.close_unit()});
    names_.push_back({ModelPart::Kind::embedding});
  }
  std::optional<Plan> in_16_bits;  // the plan of layers whose GEMMs stay so
  layers_.reserve(static_cast<std::size_t>(chunk.layers));
  for (std::int64_t i = chunk.first_layer; i < chunk.first_layer + chunk.layers; ++i) {
    const bool apart = plan.precision.in_16_bits(i, plan.model.layers);
    if (apart && !in_16_bits) in_16_bits.emplace(plan).precision.fp8.reset();
    layers_.emplace_back(store, apart ? *in_16_bits : plan, layer_of(plan.model, i),
                         plan.recompute.at(static_cast<std::size_t>(i)));
    parts_.push_back({store.close_unit()});
    names_.push_back({ModelPart::Kind::layer, static_cast<std::int32_t>(i)});
  }
  add_end(plan, chunk, word);
  hold(plan, chunk);
}

void ModelChunk::hold(const Plan& plan, const ChunkPlan& chunk) {
  const HeldWeights which = plan.keeps().held_weights;
  if (which == HeldWeights::none || !plan.state.weights.sharded() || !chunk.first || !chunk.last) return;
  held_throughout_ = which == HeldWeights::ends;
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (names_[i].kind == ModelPart::Kind::head || (held_throughout_ && names_[i].kind == ModelPart::Kind::embedding))
      held_.push_back(parts_[i].front());
}

std::shared_ptr<const nn::ParameterStore::Use> ModelChunk::held() const {
  if (held_.empty()) return nullptr;
  return std::make_shared<const nn::ParameterStore::Use>(store_.use(held_, nn::ParameterStore::Gradients::no));
}

// Behind the layers.
void ModelChunk::add_end(const Plan& plan, const ChunkPlan& chunk, nn::Parameter* word) {
  HeadSpec spec = head_of(plan.model, plan.vocab);
  if (!chunk.last && chunk.norm && spec.norm) {
    norm_.emplace(store_, plan, *spec.norm).set_last();
    parts_.push_back({store_.close_unit()});
    names_.push_back({ModelPart::Kind::head});
  }
  const bool tied = plan.model.ties_embedding();
  const auto with = [](std::vector<int> units, int other) {
    if (std::find(units.begin(), units.end(), other) == units.end()) units.push_back(other);
    return units;
  };
  std::optional<int> head;  // its unit
  if (chunk.last) {
    if (!chunk.norm) spec.norm.reset();
    head_ = std::make_unique<Head>(store_, plan, spec, word, plan.model.mtp_layers - chunk.depths);
    if (!word && tied) word = head_->words().table();
  }
  if (chunk.depths > 0 && !word)
    word = nn::add_word_table_copy(store_, plan, embedding_of(plan.model, plan.vocab).word);
  if (chunk.last) {
    head = store_.close_unit();
    parts_.push_back({*head});
    names_.push_back({ModelPart::Kind::head});
    if (word && tied) parts_.back() = with(parts_.back(), word->unit);
  }
  for (std::int64_t i = 0; i < chunk.depths; ++i) {
    if (i > 0 && plan.model.parts().mtp_use_repeated_layer) {
      depths_.push_back(depths_.back().repeated());
      parts_.push_back(parts_.back());
      names_.push_back({ModelPart::Kind::prediction, static_cast<std::int32_t>(i)});
      continue;
    }
    depths_.emplace_back(store_, plan, i, word, head_ ? &head_->words() : nullptr);
    parts_.push_back({store_.close_unit()});
    if (head) parts_.back() = with(parts_.back(), *head);
    parts_.back() = with(parts_.back(), word->unit);
    names_.push_back({ModelPart::Kind::prediction, static_cast<std::int32_t>(i)});
  }
}

namespace {

// Of an empty chunk what it sends is a tensor of its own (Megatron-Core: TransformerBlock clones there), so that a message in and one
// out each have theirs.
Tensor passed_on(nn::Context& c, const Tensor& x) {
  const Tensor y = c.activation(x.shape(), "passed on by an empty stage");
  run(c.device, ops::Copy{x, y});
  return y;
}

// Of hidden activations one behind the other, the model's (0) or a depth's (from 1).
Tensor part_of(nn::Context& c, const Tensor& all, std::size_t index) {
  const std::int64_t rows = c.hidden_shape()[0];
  return all.slice(static_cast<std::int64_t>(index) * rows, rows);
}

}  // namespace

Tensor ModelChunk::depths_forward(nn::Context& c, const nn::MicroBatch& batch, Tensor hidden, Saved& saved) const {
  const Shape one = c.hidden_shape();
  const Tensor all = c.activation({(static_cast<std::int64_t>(depths_.size()) + 1) * one[0], one[1], one[2]},
                                  "the model's output and its depths'");
  run(c.device, ops::Copy{hidden, part_of(c, all, 0)});
  const std::size_t before = parts_.size() - depths_.size();
  for (std::size_t i = 0; i < depths_.size(); ++i) {
    const auto used = use(before + i, nn::ParameterStore::Gradients::no, before + i + 1);
    const InPart here(c.device.memory(), names_[before + i]);
    hidden = depths_[i].forward(c, batch, hidden, saved.depths[i]);
    run(c.device, ops::Copy{hidden, part_of(c, all, i + 1)});
  }
  return all;
}

// The gradient of what the depth read, to which that of what the head read of it is added: of the first a tensor of its own, of the
// others the place in dy.
Tensor ModelChunk::depth_backward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& dy, std::size_t depth,
                                  Saved& saved) const {
  const Tensor d = depths_[depth].backward(c, batch, part_of(c, dy, depth + 1), saved.depths[depth]);
  const Tensor read = part_of(c, dy, depth);
  const Tensor sum = depth > 0 ? read : c.activation(c.hidden_shape(), "gradient of the model's output");
  run(c.device, ops::Add{read, d, sum});
  return depth > 0 ? dy : sum;
}

nn::ParameterStore::Use ModelChunk::use(std::size_t i, nn::ParameterStore::Gradients gradients,
                                        std::size_t next) const {
  const auto units = [&](std::size_t part) { return part < parts_.size() ? parts_[part] : std::vector<int>(); };
  return store_.use(parts_[i], gradients, units(next), units(next + (next - i)));
}

// The layer before the head keeps everything on the device: its backward follows at once.
bool ModelChunk::moves_whole(std::size_t layer) const {
  return static_cast<std::int64_t>(layer) < offloaded_.layers && !(head_ && layer + 1 == layers_.size());
}

Tensor ModelChunk::layers_forward(nn::Context& c, const nn::MicroBatch& batch, Tensor hidden, Saved& saved,
                                  std::size_t part) const {
  saved.layers.resize(layers_.size());
  saved.layer_groups.assign(layers_.size(), -1);
  if (offloaded_.any()) c.offload.begin_forward(saved.offloaded);
  for (std::size_t i = 0; i < layers_.size(); ++i, ++part) {
    const auto used = use(part, nn::ParameterStore::Gradients::no, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    c.offload.of_layer(offloaded_.parts.any() && !(head_ && i + 1 == layers_.size()));
    const bool whole = moves_whole(i);
    if (whole) c.offload.begin_group(c.device);
    if (whole) c.offload.add(hidden);
    hidden = layers_[i].forward(c, batch, hidden, saved.layers[i]);
    if (whole)
      saved.layer_groups[i] = c.offload.leave(c.device, nn::ActivationOffload::kLayer, min_offloaded_elements_, hidden);
  }
  if (offloaded_.any()) c.offload.end_forward(c.device);
  return hidden;
}

Tensor ModelChunk::forward(nn::Context& c, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const {
  const auto whole = held();
  if (held_throughout_) saved.held = whole;
  Tensor y = forward_parts(c, batch, x, saved);
  store_.end_of_forward();
  return y;
}

Tensor ModelChunk::forward_parts(nn::Context& c, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const {
  constexpr auto kNone = nn::ParameterStore::Gradients::no;
  std::size_t part = 0;
  Tensor hidden = x;
  if (embedding_) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = embedding_->forward(c, batch, saved.embedding);
    ++part;
  }
  hidden = layers_forward(c, batch, std::move(hidden), saved, part);
  part += layers_.size();
  if (norm_) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = norm_->forward(c, hidden, saved.norm);
    ++part;
  }
  saved.depths.resize(depths_.size());
  if (parts_.empty()) return passed_on(c, hidden);
  if (!head_) return depths_.empty() ? hidden : depths_forward(c, batch, std::move(hidden), saved);
  {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = head_->forward(c, batch, hidden, saved.head);
    ++part;
  }
  for (std::size_t i = 0; i < depths_.size(); ++i, ++part) {
    const auto used = use(part, kNone, part + 1);
    const InPart here(c.device.memory(), names_[part]);
    hidden = depths_[i].forward(c, batch, hidden, saved.depths[i]);
  }
  return Tensor();
}

// What a part left, from `first` on, as one piece of work, since it needs the part's gradients.
void ModelChunk::join(std::vector<std::function<void()>>& left, std::size_t first, std::size_t part) const {
  const auto begin = left.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<std::function<void()>> gemms(std::make_move_iterator(begin), std::make_move_iterator(left.end()));
  left.erase(begin, left.end());
  left.push_back([this, part, gemms = std::move(gemms)]() mutable {
    const auto used = store_.use(parts_[part], nn::ParameterStore::Gradients::rest);
    for (std::function<void()>& gemm : gemms) std::exchange(gemm, {})();  // what it held goes with it
  });
}

Tensor ModelChunk::backward(nn::Context& c, const nn::MicroBatch& batch, Tensor dy, Saved& saved,
                            const Ready& ready) const {
  const auto whole = held_throughout_ ? std::exchange(saved.held, nullptr) : held();
  std::vector<int> last;  // units whose gradients wait for those of all others
  // Through the parts from the last to the first; before the first there is none.
  std::size_t part = parts_.size();
  const auto through = [&](const auto& run) {
    --part;
    {
      const auto used =
          use(part, c.later ? nn::ParameterStore::Gradients::partly : nn::ParameterStore::Gradients::yes, part - 1);
      const InPart here(c.device.memory(), names_[part]);
      if (c.later) c.first_of_part = c.later->size();
      run();
      if (c.later) join(*c.later, c.first_of_part, part);
    }
    // A part whose unit an earlier one uses too leaves that unit's gradients to it.
    const int unit = parts_[part].front();
    if (part > 0 && parts_[part - 1].front() == unit) return;
    if (held_throughout_ && part > 0 && std::ranges::find(held_, unit) != held_.end())
      last.push_back(unit);
    else
      ready(unit);
  };
  if (parts_.empty()) return passed_on(c, dy);
  for (std::size_t i = depths_.size(); i-- > 0;)
    through([&] {
      dy = head_ ? depths_[i].backward(c, batch, dy, saved.depths[i]) : depth_backward(c, batch, dy, i, saved);
    });
  if (head_) through([&] { dy = head_->backward(c, batch, dy, saved.head); });
  if (norm_) through([&] { dy = norm_->backward(c, dy, Tensor(), saved.norm); });
  if (offloaded_.any()) c.offload.begin_backward(c.device, saved.offloaded);
  for (std::size_t i = layers_.size(); i-- > 0;)
    through([&] {
      c.offload.bring_back(c.device, saved.layer_groups[i]);
      dy = layers_[i].backward(c, batch, dy, saved.layers[i]);
    });
  if (offloaded_.any()) c.offload.end_backward();
  if (!embedding_) return dy;
  through([&] { embedding_->backward(c, batch, dy, saved.embedding); });
  for (const int unit : last) ready(unit);
  return Tensor();
}

void ModelChunk::make_deferred(nn::Context& c) const {
  if (!head_ || c.deferred.empty()) return;
  const std::size_t head = parts_.size() - 1 - depths_.size();
  const auto used = use(head, nn::ParameterStore::Gradients::yes, parts_.size());
  nn::Linear::make_deferred(c, std::exchange(c.deferred, {}));
}

}  // namespace mbench::model
