// AdamW on f32 main weights, clipping by the true global norm, learning-rate warm-up, and for fp16 a dynamic
// loss scale.
#pragma once
#include <vector>

#include "engine/nn/context.h"
#include "engine/nn/parameters.h"
#include "engine/ops/ranges.h"

namespace mbench {

// Megatron's rule: halve after an overflow, double after a run of steps without one.
class LossScaler {
 public:
  explicit LossScaler(bool dynamic) : dynamic_(dynamic), scale_(dynamic ? 65536.0f : 1.0f) {}
  float scale() const { return scale_; }
  void update(bool overflow);

 private:
  static constexpr int kGrowthInterval = 1000;
  bool dynamic_;
  float scale_;
  int good_steps_ = 0;
};

class Optimizer {
 public:
  struct Outcome {
    float gradient_norm = 0;  // of the whole model, before clipping
    bool skipped = false;     // fp16 overflow: no weight was changed
  };
  Optimizer(Device& device, const Plan& plan, const ParameterStore& store, const Groups& groups);
  float loss_scale() const { return scaler_.scale(); }
  Outcome step();

 private:
  float global_norm(const Tensor& gradients, float scale);
  float learning_rate() const;

  Device& device_;
  const Plan& plan_;
  const ParameterStore& store_;
  // The ranks that together hold one copy of the model's dense weights, and one of its experts.
  Group &model_parallel_, &expert_parallel_;
  LossScaler scaler_;
  Tensor m_, v_, norm_;
  Tensor experts_norm_;                               // where the model has experts
  std::vector<ops::ElementRange> counted_, experts_;  // in the norm, on this rank: dense, and of experts
  std::vector<ops::ElementRange> undecayed_;          // by weight decay
  std::int64_t steps_taken_ = 0, steps_seen_ = 0;
};

}  // namespace mbench
