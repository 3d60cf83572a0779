// A step of Muon (engine/ops/muon.h) over the matrices of layers that this rank updates. Each is orthogonalised as a whole: where a
// weight's placement cuts it, its parts are gathered first and every rank computes all of it, as Megatron-Core's mode `duplicated`
// does. Experts are a matrix each. GEMMs are in f32 where the model computes in that, else in bf16.
//
// The step is as long as 0.2 times the root of the larger side makes it (Liu et al. 2025, torch's `match_rms_adamw`), so that one
// learning rate serves Muon and AdamW.
#pragma once
#include <vector>

#include "engine/nn/groups.h"
#include "engine/nn/parameters.h"

namespace mbench {

class Muon {
 public:
  Muon(Device& device, const Plan& plan, const Groups& groups);

  // One parameter: flat tensors of its elements, and its momentum.
  struct Item {
    const Parameter* parameter;
    Tensor main, gradients, model, momentum;
  };
  struct Step {
    float lr, weight_decay, gradient_scale;
  };
  void step(const std::vector<Item>& items, const Step& step);

 private:
  // What cuts a matrix, one dim of it: its ranks, and 0 for rows, 1 for columns; one rank where it is whole.
  struct Cut {
    Axes axes;
    int dim = 0;
  };
  Cut cut_of(const Parameter& parameter) const;
  void update(const Item& matrix, const Cut& cut, const Step& step);
  Tensor whole(const Tensor& part, const Cut& cut) const;
  Tensor own(const Tensor& whole, const Shape& shape, const Cut& cut) const;
  // Five iterations of Newton-Schulz from a matrix of norm one.
  Tensor orthogonalised(Tensor x) const;
  Tensor room(const Shape& shape, std::string_view what) const;

  Device& device_;
  const Plan& plan_;
  const Groups& groups_;
  DType type_;
};

}  // namespace mbench
