// What the micro batches of a step read: tokens, labels, masks and factors of their losses. A loader draws them on the host. They are
// written to the device as each forward comes, or for all of a replayed step before it.
#pragma once
#include <memory>
#include <vector>

#include "engine/model/model.h"
#include "engine/train/data.h"
#include "engine/train/loader.h"

namespace mbench::train {

class StepInputs {
 public:
  // `losses`: [next token and depths, micro batches] f32. `data` may be null on a simulated device. The context outlives it.
  StepInputs(nn::Context& context, int stage, int dp_rank, const Tensor& losses, const TokenSource* data);

  // Where steps are replayed: tensors that hold what all micro batches of a step read, and what is written into them
  // before a step.
  void keep_all();
  void write_kept(float loss_scale);
  // What a forward reads: written for it, or there since before the step.
  nn::MicroBatch of(int micro, float loss_scale);
  // Whether a mask that no causal attention reads comes with a micro batch, and goes after its forward.
  bool brings_mask() const;

 private:
  void open_loader(const TokenSource* data, int stage);
  std::int64_t first_sample(int micro) const;  // within the global batch
  nn::MicroBatch allocate(int micro);
  Tensor document_bounds();  // empty where none are packed
  void write(nn::MicroBatch& batch, int micro, float loss_scale);
  void write_factors(const nn::MicroBatch& batch);
  void write_of_all(nn::MicroBatch& batch, int micro);

  const Plan& plan_;
  Device& device_;
  nn::Context& context_;
  int dp_rank_;
  Tensor losses_;
  std::unique_ptr<Loader> loader_;    // null on a simulated device
  std::vector<nn::MicroBatch> kept_;  // by micro batch, where steps are replayed
};

}  // namespace mbench::train
