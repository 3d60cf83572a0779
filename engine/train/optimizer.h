// The optimizer that the plan declares (OptimizerPlan), on f32 main weights. It clips by the true global norm, has
// learning-rate warm-up, and for fp16 a dynamic loss scale. Where its state is sharded, each rank updates its own part
// (StateLayout). Where it lives in host memory, the host updates it (HostUpdate), by a norm that the device takes.
#pragma once
#include <optional>
#include <vector>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/ranges.h"
#include "engine/train/host_update.h"

namespace mbench::train {

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
  Optimizer(Device& device, const Plan& plan, const nn::ParameterStore& store, const nn::Groups& groups);
  float loss_scale() const { return scaler_.scale(); }
  Outcome step();

  // The same where steps are replayed, in three parts. Before the step, prepare() gives the device what the host knows.
  // The step decides on the device, and the host asks for nothing in it. After it, settle() reads what came of it.
  void prepare();
  void enqueue();
  Outcome settle();

 private:
  // What one launch updates, contiguous in every tensor: all that this rank updates where nothing is sharded, or
  // elements of one parameter.
  struct Piece {
    Tensor main, gradients;
    Tensor model;                              // the model's weights, where main is separate
    Tensor main_on_device;                     // the device's f32 originals, where main is the host's
    std::vector<Tensor> states;                // as the plan declares them
    std::int64_t at = 0;                       // where it begins in the tensors of what is owned
    std::vector<ops::ElementRange> counted;    // what this rank counts in the norm
    std::vector<ops::ElementRange> undecayed;  // by weight decay
    const nn::Parameter* parameter = nullptr;  // the one parameter, if it is of one
    bool on_host = true;                       // is updated there, where the host updates any
  };
  // How a step updates every piece.
  struct Update {
    float lr, weight_decay, gradient_scale;
    std::int64_t step;  // from 1
  };
  void allocate_states();
  std::int64_t most_owned(const OptimizerState& state) const;
  std::int64_t room_of(const OptimizerState& state, const nn::Parameter& p) const;
  void make_pieces();
  void make_pieces_of_parameters();
  // Whether the device has the state of what is owned there, though the host has some too.
  bool beside_host(std::int64_t at) const { return store_.host_elements() > 0 && at >= store_.host_elements(); }
  void keep_beside(Piece& piece, std::int64_t at, std::int64_t size) const;
  std::vector<nn::StateLayout::Own> owned_ranges() const;
  Piece piece_at(std::int64_t at, std::int64_t begin, std::int64_t size) const;
  bool counts(const nn::Parameter& p) const;
  void mark(const nn::StateLayout::Own& own, Piece& piece, std::int64_t begin) const;
  void open_host_update();
  void update_on_host(const std::vector<Tensor>& gradients, const Update& how);  // [piece]
  void sum_squares(const std::vector<Tensor>& gradients);                        // [piece], of the whole model
  bool copies_gradients() const;                                                 // in_f32() comes before an update
  std::vector<Tensor> in_f32(float scale);  // the gradients times that: of each piece
  float learning_rate() const;
  std::int64_t own_tensors(const nn::Parameter& p) const;
  void update(const Piece& piece, const Tensor& gradients, const Update& how);
  void update_matrices(const std::vector<Tensor>& gradients, const Update& how);  // [piece]
  void update_by_muon(const std::vector<Tensor>& gradients, const Update& how);   // likewise

  Device& device_;
  const Plan& plan_;
  const nn::ParameterStore& store_;
  const nn::Groups& groups_;
  bool everyone_;            // whether any rank may own what no other does: state is sharded, or there are experts
  comm::Group& norm_group_;  // the ranks that together own every gradient once
  LossScaler scaler_;
  std::vector<Tensor> states_, states_beside_;  // the latter on the device, of what follows the host's part
  Tensor norm_, norm_on_host_;                  // the latter where gradients are there
  Tensor by_step_;                              // ops::AdamStep, where steps are replayed
  std::vector<Piece> pieces_;
  std::optional<HostUpdate> host_update_;  // where state lives in host memory
  std::int64_t own_tensors_ = 0;           // weight tensors that this rank updates, whole or in part
  std::int64_t steps_taken_ = 0, steps_seen_ = 0;
};

}  // namespace mbench::train
