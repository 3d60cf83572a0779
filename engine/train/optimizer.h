// AdamW on f32 main weights, clipping by the true global norm, learning-rate warm-up, and for fp16 a dynamic
// loss scale. Where its state is sharded, each rank updates its own part (StateLayout).
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
  // A contiguous piece of what this rank updates: all of it where nothing is sharded.
  struct Piece {
    Tensor main, m, v, gradients;
    Tensor model;                              // 16-bit weights, where there are
    std::int64_t at = 0;                       // of the tensors of what is owned, where m and v begin
    std::vector<ops::ElementRange> counted;    // in the norm, by this rank
    std::vector<ops::ElementRange> undecayed;  // by weight decay
  };
  void make_pieces();
  bool counts(const Parameter& p) const;
  void mark(const StateLayout::Own& own, Piece& piece, std::int64_t begin) const;
  float global_norm(const std::vector<Tensor>& gradients, float scale);  // [piece]
  float learning_rate() const;

  Device& device_;
  const Plan& plan_;
  const ParameterStore& store_;
  const Groups& groups_;
  bool everyone_;      // whether any rank may own what no other does: state is sharded, or there are experts
  Group& norm_group_;  // the ranks that together own every gradient once
  LossScaler scaler_;
  Tensor m_, v_, norm_;
  std::vector<Piece> pieces_;
  std::int64_t steps_taken_ = 0, steps_seen_ = 0;
};

}  // namespace mbench
