// Weights that live only in FP8, with f32 originals: Transformer Engine's fp8_model_init, Megatron-Core's
// --fp8-param-gather, torchao's enable_fsdp_float8_all_gather. There is no 16-bit copy, and ranks exchange the codes of
// a weight, a byte an element.
//
// MXFP8 has other codes either way round, so that a part of a weight in either is not enough for its owner's peers. Its weights are gathered in
// 16 bits, in the memory of their gradients, which hold nothing until the first backward (Megatron-Core's
// --reuse-grad-buf-for-mxfp8-param-ag). Fp8Gemms quantises them both ways round in the first forward, and keeps that.
//
// With the other recipes a step begins by quantising the f32 originals. Each rank quantises what it owns of a weight, by scales of the whole
// weight. For these, one all-reduce for all weights takes the largest values over the ranks that own parts of them;
// delayed scales are there before. The codes are one flat tensor, whole or as sharded as weights are (StatePlan). They
// lie along the inner dim of forward's GEMMs; Fp8Gemms transposes them for the others.
#pragma once
#include <map>
#include <vector>

#include "engine/nn/linear/fp8.h"
#include "engine/nn/state/state_layout.h"

namespace mbench::nn {

struct Parameter;
class InitialValues;
class FrozenSpace;

class Fp8Parameters {
 public:
  // Called while the model is built: a weight, and its slot where scaling is delayed. Weights of experts are a matrix
  // for each.
  void add(Parameter& parameter, int slot);
  bool empty() const { return matrices_.empty(); }
  // Whether codes() lies in the memory of gradients.
  bool in_gradients() const { return !empty() && recipe_ == Fp8Recipe::mxfp8; }

  // Called once the model is built and laid out. `main`: the f32 originals, as they are sharded. `gradients`: the memory of all gradients.
  void allocate(Device& device, const Plan& plan, const StateLayout& layout, const Tensor& main,
                const Tensor& gradients, ScaleHistory& scales);
  // Called as a step begins, before anything is gathered.
  void quantise(Device& device, const Groups& groups);

  // For frozen weights: allocates their scales, and quantises their initial values once into `codes`, where each has its item. Scales are of
  // the values and whole on every rank, also where those of trained weights are delayed.
  struct Frozen {
    const Parameter* parameter;
    std::size_t item;
  };
  void initialise_frozen(Device& device, const Plan& plan, const InitialValues& values, const FrozenSpace& codes,
                         const std::vector<Frozen>& weights);

  // What is gathered of the weights: codes; of MXFP8 values in 16 bits, until gradients are there.
  const Tensor& codes() const { return codes_; }
  // The operand for the rows from `row` on of a matrix of the parameter: `codes`, with the inverse of their scales.
  ops::Fp8Operand operand(const Parameter& parameter, std::int64_t matrix, const Tensor& codes, std::int64_t row) const;

 private:
  struct Matrix {
    const Parameter* parameter;
    std::int64_t index, rows, cols;
    int slot;
    std::int64_t begin = 0;     // in the space of the layout
    Tensor scale{}, inverse{};  // `scale` first holds the largest values
    Tensor amax{};              // for delayed scaling, whose scales are there before
  };
  // What this rank quantises of a matrix: the elements from `first` on.
  struct Part {
    std::size_t matrix;
    std::int64_t first;
    Tensor main, codes;
  };
  // The scales of all weights that the same ranks own parts of.
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

}  // namespace mbench::nn
