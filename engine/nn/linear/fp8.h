// GEMMs of a linear layer in FP8 (Micikevicius et al. 2022, arXiv:2209.05433): operands are quantised as they are
// needed, and multiplied with f32 accumulation. They are the linear parts of a layer's mixers, as with Transformer
// Engine (TELinear and TEGroupedLinear in Megatron-Core's layer specs) and torchtitan's Float8 converter (all but the
// output). Not in FP8: the router, embedding, logits, the core of attention, and what joins words for multi-token
// prediction.
//
// Recipes: `tensorwise`, a scale from the tensor at hand (Float8CurrentScaling); `delayed`, from the largest of the
// last 1024 steps (DelayedScaling, HYBRID). Both use e4m3 forward and e5m2 for gradients. `blockwise`
// (Float8BlockScaling; DeepSeek-V3 Technical Report, 3.3) uses e4m3 everywhere. It has a scale for each 1 x 128
// elements of activations and gradients and each 128 x 128 of weights.
//
// `rowwise` (torchao's Float8LinearConfig of that name) uses e4m3 everywhere. Every row along the inner dim of an operand has a
// scale, so a matrix and its transpose are quantised separately.
//
// `mxfp8` (MXFP8BlockScaling; Open Compute Project, Microscaling Formats (MX) 1.0) uses e4m3 everywhere. It has a scale of
// 8 bits for each 32 elements along the inner dim of every operand. A matrix and its transpose are quantised separately,
// weights too.
//
// NVFP4 (NVFP4BlockScaling; arXiv:2509.25149) has 4 bits an element and one scale for the tensor. An FP8 scale is for each 16
// elements along the inner dim, in weights for 16 x 16. Gradients round at random. Operands of weights' gradients first go
// through a Hadamard transform of 16 tokens.
//
// Delayed scales move once a step, by the largest over micro batches and ranks; Transformer Engine moves them after
// each forward. So a recomputed region finds the scale that it had, and every schedule has the same scales.
#pragma once
#include <vector>

#include "engine/nn/linear/fp8_tensor.h"
#include "engine/nn/runtime/context.h"

namespace mbench::nn {

struct Parameter;
class Fp8Parameters;
class ParameterStore;

enum class Fp8Ways { straight, transposed, both };

// The delayed scales of all layers of a rank, and the largest values that they come from.
class ScaleHistory {
 public:
  static constexpr std::int64_t kSteps = 1024;  // DelayedScaling's amax_history_len
  // Adds a tensor of that type; returns its slot among those.
  int add(DType type) { return of(type).count++; }
  // Called once all are added. Does nothing where there are none.
  void allocate(Device& device);
  Tensor amax(DType type, int slot) { return of(type).amax.slice(slot, 1); }
  Tensor scale(DType type, int slot) { return of(type).scale.slice(slot, 1); }
  Tensor inverse(DType type, int slot) { return of(type).inverse.slice(slot, 1); }
  // After a step: the largest values over the ranks that share a layer, and the scales that follow. `on_device`: [1] i64, the
  // step's number where steps are replayed, or empty.
  void end_step(Device& device, const Groups& groups, std::int64_t step, const Tensor& on_device);

 private:
  struct OfType {
    int count = 0;
    Tensor amax, scale, inverse, history;
  };
  OfType& of(DType type) { return types_[type == DType::e4m3 ? 0 : 1]; }
  OfType types_[2];
};

// The GEMMs of one weight, or of several that lie one after the other (experts).
class Fp8Gemms {
 public:
  // Called while the model is built. The weight lives only in FP8 from then on, if the plan says so.
  Fp8Gemms(ParameterStore& store, Parameter& weight, const Plan& plan);

  // The layer's input [rows, in], quantised. `parts_of`: ranks along these axes hold the other parts of a tensor with
  // one scale.
  Fp8Tensor input(Context& context, const Tensor& x, Fp8Ways ways, const std::vector<Axis>& parts_of = {}) const;
  // Where what backward wants of several inputs, as many experts have, lies together: the codes of all rows, and their scales where rows
  // share them.
  struct Together {
    Tensor codes;   // [rows, codes of one]
    Tensor scales;  // [groups of 32 rows of one input, their scales], or empty
  };
  // For `parts` inputs of `cols` columns that have so many rows in all.
  Together inputs_together(Context& context, std::int64_t rows, std::int64_t cols, std::int64_t parts) const;
  // Input number `part` of those, each [rows, cols]: both sides. The one for backward lies there.
  Fp8Tensor input_in(Context& context, const Tensor& x, const Together& together, std::int64_t part) const;
  Fp8Tensor gradient(Context& context, const Tensor& dy, Fp8Ways ways = Fp8Ways::both,
                     const std::vector<Axis>& parts_of = {}) const;
  // The weight [out, in], quantised, or a part of it: matrix `part` of several, its rows from `row` on. It is made once
  // a step, both straight and transposed, and kept; where weights are sharded, it is made for this use. A weight that
  // lives only in FP8 is straight already, so only the transposed one is made. Where frameworks free transposed copies, that one
  // is made for this use from what is kept.
  Fp8Tensor weight(Context& context, const Tensor& w, Fp8Ways ways, std::int64_t part = 0, std::int64_t row = 0) const;

  // Rows of the weight that are multiplied separately, quantised for this use.
  ops::Fp8Operand rows(Context& context, const Tensor& w) const {
    return quantise(context, kWeight, w, Fp8Ways::straight, {}).straight;
  }

  // Whether quantised tensors can be gathered, and transposed after that: not with scales of blocks.
  bool travels() const { return !of_blocks(recipe_); }
  ops::Fp8Operand transpose(Context& context, const ops::Fp8Operand& x) const;
  // Whether both sides of a quantised tensor can be gathered as they are, each with its scales: MXFP8 of whole tiles of scales, and so
  // NVFP4 but for rings.
  bool sides_travel(std::int64_t rows) const {
    return recipe_ == Fp8Recipe::mxfp8 && rows % ops::QuantiseBlocks::kBlock == 0;
  }
  bool sides_are_gathered(std::int64_t rows) const {
    return sides_travel(rows) || (recipe_ == Fp8Recipe::nvfp4 && rows % ops::QuantiseBlocks::kBlock == 0);
  }
  // Rows [first, first + count) of a weight in FP8, cut at multiples of multiple_of_rows().
  static ops::Fp8Operand part(const ops::Fp8Operand& w, std::int64_t first, std::int64_t count);
  // Rows whose scales can be cut off.
  std::int64_t multiple_of_rows() const {
    return travels() || recipe_ == Fp8Recipe::rowwise ? ops::Fp8Matmul::kMultiple : ops::QuantiseBlocks::kBlock;
  }

  // out = a b^T + beta * out.
  static void multiply(Context& context, const ops::Fp8Operand& a, const ops::Fp8Operand& b, const Tensor& out,
                       float beta = 0);

 private:
  enum Operand { kInput, kWeight, kGradient };
  DType type_of(Operand operand) const;
  ops::Fp8Blocks blocks_of(Operand operand) const;
  // Of NVFP4: the largest values of the operand's sides, over all of its parts, and how it is rounded.
  void prepare_nvfp4(Context& context, Operand operand, Fp8Tensor& q, ops::QuantiseBlocks& op,
                     const std::vector<Axis>& parts_of) const;
  Fp8Tensor weight_in_fp8(Context& context, const Tensor& codes, Fp8Ways ways, std::int64_t part,
                          std::int64_t row) const;
  // Into the tensors that `into` has, or new ones.
  Fp8Tensor quantise(Context& context, Operand operand, const Tensor& x, Fp8Ways ways, Fp8Tensor into,
                     const std::vector<Axis>& parts_of = {}) const;

  Fp8Recipe recipe_;
  bool sharded_;           // weights
  bool frees_transposed_;  // copies of weights, after each use
  bool turns_;             // nothing is transposed: the transposed side has the codes of the straight one
  ScaleHistory* scales_;
  int slots_[3] = {};  // [operand], for delayed scaling
  const Parameter* weight_;
  const Fp8Parameters* parameters_;
};

}  // namespace mbench::nn
