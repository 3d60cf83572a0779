// The trainable parameters of one rank, in units that own their storage. Modules hold pointers to parameters and read
// them inside a Use of their unit alone; where the unit's tensors lie meanwhile is the store's business.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/nn/groups.h"
#include "engine/plan/plan.h"

namespace mbench {

struct Parameter {
  WeightSpec spec;  // its name names the draw of its initial value too: the same on every layout
  Spread placement;
  Axes reduce_over;     // its gradient is partial along these axes when backward ends
  bool counted = true;  // in the gradient norm and the parameter count; false for copies of a tied table
  // Held by the first and the last stage of a pipeline, which sum their gradients.
  bool shared_by_ends = false;

  Shape local;  // of this rank's shard
  int unit = 0;
  std::int64_t offset = 0;  // in the flat tensors, elements
  Tensor value, gradient;   // within a Use of the unit; else empty

  const std::string& name() const { return spec.name; }
  bool decays() const {
    return spec.shape.rank() > 1;
  }  // weight decay acts on matrices, not on biases and norms
};

// Parameters that are used together and whose gradients become ready together: one layer, the embedding, the head.
class ParameterUnit {
 public:
  // Neighbouring parameters whose gradients are reduced over the same ranks of data: a range of the flat tensors.
  struct Run {
    std::int64_t begin = 0, end = 0;
    Axes data;  // of cp, dp and edp
  };
  const std::vector<Run>& runs() const { return runs_; }

 private:
  friend class ParameterStore;
  std::vector<Parameter*> parameters_;
  std::vector<Run> runs_;
  int users_ = 0;
};

class ParameterStore {
 public:
  ParameterStore(Device& device, const Plan& plan, const Groups& groups)
      : device_(device), plan_(plan), groups_(groups) {}

  // While the model is built. `tokens` and `outputs`: where the activations lie that the weight acts on, and what it makes.
  Parameter* add(const WeightSpec& spec, const Spread& placement, const Spread& tokens,
                 const Spread& outputs);
  Parameter* add(const WeightSpec& spec, const Spread& placement, const Spread& tokens) {
    return add(spec, placement, tokens, tokens);
  }
  // Closes the unit of everything added since the last call; returns its index.
  int close_unit();
  // A tensor of zeros that a module keeps from step to step and no gradient moves.
  Tensor add_state(const Shape& shape, std::string_view what);
  // Once it is: memory for weights, gradients and, with 16-bit weights, their f32 originals; initial values
  // drawn.
  void allocate_and_initialise();

  // While it lives, the values and gradients of a unit's parameters are there. Uses of one unit may overlap.
  class Use {
   public:
    Use(ParameterStore& store, int unit) : store_(&store), unit_(unit) { store.begin_use(unit); }
    ~Use() {
      if (store_) store_->end_use(unit_);
    }
    Use(Use&& other) noexcept : store_(std::exchange(other.store_, nullptr)), unit_(other.unit_) {}
    Use& operator=(Use&&) = delete;

   private:
    ParameterStore* store_;
    int unit_;
  };
  [[nodiscard]] Use use(int unit) { return Use(*this, unit); }

  const Groups& groups() const { return groups_; }
  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  int unit_count() const { return static_cast<int>(units_.size()); }
  const ParameterUnit& unit(int index) const { return units_[static_cast<std::size_t>(index)]; }
  // All units' tensors, one after the other, as the optimizer and gradient buckets read them.
  std::int64_t size() const { return size_; }  // elements, alignment included
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  const Tensor& main() const { return main_; }  // f32; the weights themselves where they are f32
  Tensor gradient_of(const Parameter& p) const { return gradients_.part(p.offset, p.local); }

 private:
  void begin_use(int unit);
  void end_use(int unit);
  void initialise(const Parameter& p);
  void draw_rows(const Parameter& p, const Tensor& target, std::int64_t row0, std::int64_t col0);

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::size_t closed_ = 0;  // parameters that are in a unit
  std::vector<ParameterUnit> units_;
  std::int64_t size_ = 0;
  Tensor weights_, gradients_, main_;
};

}  // namespace mbench
