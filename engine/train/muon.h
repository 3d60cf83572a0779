// A step of Muon (engine/ops/muon.h) over the matrices of layers that this rank updates. Each is orthogonalised as a
// whole. Where a weight's placement cuts it, its parts are gathered first and every rank computes all of it
// (Megatron-Core's mode `duplicated`). Each expert is a matrix. GEMMs are in f32 where the model computes in f32, else
// in bf16.
//
// The step is scaled by 0.2 times the root of the larger side (Liu et al. 2025, torch's `match_rms_adamw`), so that one
// learning rate serves Muon and AdamW.
#pragma once
#include <vector>

#include "engine/nn/runtime/groups.h"
#include "engine/nn/state/parameters.h"

namespace mbench::train {

class Muon {
 public:
  Muon(Device& device, const Plan& plan, const nn::Groups& groups);

  // One parameter: flat tensors of its elements, and its momentum.
  struct Item {
    const nn::Parameter* parameter;
    Tensor main, gradients, model, momentum;
  };
  struct Step {
    float lr, weight_decay, gradient_scale;
  };
  void step(const std::vector<Item>& items, const Step& step);

 private:
  // How a matrix is cut along one dim: over which axes, and 0 for rows, 1 for columns. The axes have one rank where it
  // is whole.
  struct Cut {
    Axes axes;
    int dim = 0;
  };
  Cut cut_of(const nn::Parameter& parameter) const;
  void update(const Item& matrix, const Cut& cut, const Step& step);
  Tensor whole(const Tensor& part, const Cut& cut) const;
  Tensor own(const Tensor& whole, const Shape& shape, const Cut& cut) const;
  // Five iterations of Newton-Schulz from a matrix of norm one.
  Tensor orthogonalised(Tensor x) const;
  Tensor room(const Shape& shape, std::string_view what) const;

  Device& device_;
  const Plan& plan_;
  const nn::Groups& groups_;
  DType type_;
};

}  // namespace mbench::train
