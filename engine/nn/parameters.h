// The trainable parameters of one rank: flat in memory, so that a bucket of gradients, a shard of optimizer
// state or an Adam step is a range. Modules hold pointers to the entries; the store owns them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/group.h"
#include "engine/plan/plan.h"

namespace mbench {

struct Parameter {
  std::string name;     // names the draw of its initial value too: the same on every layout
  Shape shape;          // of the whole parameter
  Placement placement;  // over tp
  float stddev = 0;     // initial values: normal with this deviation, or, where it is 0, `value`
  float constant = 0;
  bool partial_over_tp =
      false;            // every tp rank sees only a part of the tokens: gradients must be summed over tp
  bool counted = true;  // in the gradient norm and the parameter count; false for copies of a tied weight

  Shape local;              // of this rank's shard
  std::int64_t offset = 0;  // in the flat tensors, elements
  Tensor value, gradient;   // views of the flat tensors

  bool decays() const { return shape.rank() > 1; }  // weight decay acts on matrices, not on biases and norms
};

// Parameters whose gradients become ready together: one layer, the embedding, the head.
struct ParameterUnit {
  std::int64_t begin = 0, end = 0;  // range of the flat tensors
};

class ParameterStore {
 public:
  ParameterStore(Device& device, const Plan& plan, Group& tp) : device_(device), plan_(plan), tp_(tp) {}

  // While the model is built:
  Parameter* add(Parameter parameter);
  // Closes the unit of everything added since the last call; returns its index.
  int close_unit();
  // Once it is: memory for weights, gradients and, with 16-bit weights, their f32 originals; initial values
  // drawn.
  void allocate_and_initialise();

  const std::vector<std::unique_ptr<Parameter>>& all() const { return parameters_; }
  const ParameterUnit& unit(int index) const { return units_[index]; }
  Parameter* find(const std::string& name) const;  // null if this rank has none of that name
  std::int64_t size() const { return size_; }      // of the flat tensors, alignment included
  const Tensor& weights() const { return weights_; }
  const Tensor& gradients() const { return gradients_; }
  const Tensor& main() const { return main_; }  // f32; the weights themselves where they are f32

 private:
  void initialise(const Parameter& p);
  Device& device_;
  const Plan& plan_;
  Group& tp_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  std::vector<ParameterUnit> units_;
  std::int64_t size_ = 0;
  Tensor weights_, gradients_, main_;
};

}  // namespace mbench
