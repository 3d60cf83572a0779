// The part of a model that one rank holds: a run of layers for each chunk of its stage. The first chunk of all has the
// embedding before them, the last the head behind and the depths of multi-token prediction. A layout cut by hand puts
// the depths on a chunk before the head's, and may leave a chunk empty.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/model/head.h"
#include "engine/model/multi_token.h"
#include "engine/nn/layers/embedding.h"
#include "engine/nn/layers/layer.h"

namespace mbench::model {

class ModelChunk {
 public:
  // What one micro batch's forward keeps for its backward.
  struct Saved {
    nn::InputEmbedding::Saved embedding;
    std::vector<nn::Layer::Saved> layers;
    nn::OffloadGroups offloaded;    // of what the layers keep
    std::vector<int> layer_groups;  // of each layer, where whole ones are offloaded
    nn::Norm::Saved norm;
    Head::Saved head;
    std::vector<PredictionDepth::Saved> depths;
    std::shared_ptr<const nn::ParameterStore::Use> held;  // Keeps::held_weights
  };
  // Called in backward with the unit whose parameter gradients of this micro batch are complete.
  using Ready = std::function<void(int unit)>;

  // `word`: the word table if an earlier chunk of this rank has it.
  ModelChunk(nn::ParameterStore& store, const Plan& plan, const ChunkPlan& chunk, nn::Parameter* word);

  // `x` is the activation received, empty for the first chunk. Returns the output to send, empty for the
  // last.
  Tensor forward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const;
  // `dy` is the gradient received, empty for the last chunk. Returns the one to send, empty for the first.
  Tensor backward(nn::Context& context, const nn::MicroBatch& batch, Tensor dy, Saved& saved, const Ready& ready) const;

  // After the last backward of a step: the gradients of weights that it left (Context::deferred), of the head.
  void make_deferred(nn::Context& context) const;

  // After an optimizer step.
  void after_step(nn::Context& context) const {
    for (const nn::Layer& layer : layers_) layer.after_step(context);
    for (const PredictionDepth& depth : depths_) depth.after_step(context);
  }

  nn::Parameter* word() const { return embedding_ ? embedding_->word() : nullptr; }

 private:
  Tensor forward_parts(nn::Context& context, const nn::MicroBatch& batch, const Tensor& x, Saved& saved) const;
  Tensor layers_forward(nn::Context& context, const nn::MicroBatch& batch, Tensor hidden, Saved& saved,
                        std::size_t part) const;
  // Whether the plan moves all that a layer of the chunk keeps.
  bool moves_whole(std::size_t layer) const;
  void join(std::vector<std::function<void()>>& left, std::size_t first, std::size_t part) const;
  void hold(const Plan& plan, const ChunkPlan& chunk);
  std::shared_ptr<const nn::ParameterStore::Use> held() const;
  void add_end(const Plan& plan, const ChunkPlan& chunk, nn::Parameter* word);
  // Depths whose head is elsewhere. depths_forward() returns the hidden activations of the model and of each depth, one
  // after the other along the first dim. depth_backward() takes the gradient back through one depth; the last call
  // returns the model's.
  Tensor depths_forward(nn::Context& context, const nn::MicroBatch& batch, Tensor hidden, Saved& saved) const;
  Tensor depth_backward(nn::Context& context, const nn::MicroBatch& batch, const Tensor& dy, std::size_t depth,
                        Saved& saved) const;

  std::optional<nn::InputEmbedding> embedding_;
  std::vector<nn::Layer> layers_;
  std::optional<nn::Norm> norm_;  // behind the last layer, where the head is elsewhere
  std::unique_ptr<Head> head_;    // which the depths refer to
  std::vector<PredictionDepth> depths_;
  // For the units of parts_[i], while that part of the chunk runs; meanwhile the units of parts_[next] may be fetched.
  nn::ParameterStore::Use use(std::size_t i, nn::ParameterStore::Gradients gradients, std::size_t next) const;

  nn::ParameterStore& store_;
  OffloadedActivations offloaded_;
  std::int64_t min_offloaded_elements_;
  // In the order of a forward: the embedding, each layer, the norm, the head, each depth. Each has its own units, and
  // those that it shares, of tables and logits.
  std::vector<std::vector<int>> parts_;
  std::vector<ModelPart> names_;  // of each
  // The units whose weights stay gathered beyond their part, and whether they do so from forward to backward. Their gradients are ready
  // when those of all others are, then.
  std::vector<int> held_;
  bool held_throughout_ = false;
};

}  // namespace mbench::model
