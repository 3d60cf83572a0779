// Weights that live in FP8 alone, beside their f32 originals, as Transformer Engine's fp8_model_init and Megatron-Core's
// --fp8-param-gather have them, and torchao's enable_fsdp_float8_all_gather gathers them: there is no 16-bit copy, and what other ranks
// are sent of a weight is its codes, a byte an element.
//
// A step begins by quantising the f32 originals: each rank what it owns of a weight, by scales of the whole weight, whose largest values
// go over the ranks that own parts of it in one all-reduce for all weights. Those of delayed scaling are there before. The codes are one
// flat tensor, whole or as sharded as weights are (StatePlan), along the inner dim of forward's products; the other way round a product
// turns them itself (Fp8Gemms).
#pragma once
#include <map>
#include <vector>

#include "engine/nn/fp8.h"
#include "engine/nn/state_layout.h"

namespace mbench {

struct Parameter;

class Fp8Parameters {
 public:
  // While the model is built: a weight, and its slot where scaling is delayed. Weights of experts are a matrix for each.
  void add(Parameter& parameter, int slot);
  bool empty() const { return matrices_.empty(); }

  // Once it is built and laid out. `main`: the f32 originals, as they are sharded.
  void allocate(Device& device, const Plan& plan, const StateLayout& layout, const Tensor& main, ScaleHistory& scales);
  // As a step begins, before anything is gathered.
  void quantise(Device& device, const Groups& groups);

  const Tensor& codes() const { return codes_; }
  // What stands for the rows from `row` on of a matrix of the parameter: those codes, with the inverse of their scales.
  ops::Fp8Operand operand(const Parameter& parameter, std::int64_t matrix, const Tensor& codes, std::int64_t row) const;

 private:
  struct Matrix {
    const Parameter* parameter;
    std::int64_t index, rows, cols;
    int slot;
    std::int64_t begin = 0;     // in the space of the layout
    Tensor scale{}, inverse{};  // the scale's place has the largest values first
    Tensor amax{};              // of delayed scaling, whose scales are there before
  };
  // What this rank quantises of a matrix: elements from `first` on.
  struct Part {
    std::size_t matrix;
    std::int64_t first;
    Tensor main, codes;
  };
  // The figures of all weights that the same ranks own parts of.
  struct Figures {
    std::int64_t count = 0;
    Tensor scales, inverses;
  };
  void allocate_figures(Device& device, const Plan& plan);

  Fp8Recipe recipe_ = Fp8Recipe::tensorwise;
  bool sharded_ = false;
  std::vector<Matrix> matrices_;
  std::vector<Part> parts_;
  std::map<Axes, Figures> figures_;  // by the axes along which those ranks lie
  Tensor codes_;
};

}  // namespace mbench
