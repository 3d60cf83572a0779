// An MoE's experts on this rank.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/layers/activation.h"
#include "engine/nn/moe/expert_adapter.h"
#include "engine/nn/runtime/offloaded_piece.h"
#include "engine/nn/runtime/recompute.h"
#include "engine/ops/expert_bias.h"

namespace mbench::nn {

class Nf4Weights;

// y = fc2(activation(fc1(x))), every row by its expert: grouped GEMMs. With weights, a number for each row, fc2's GEMM
// computes fc2(weight * activation(fc1(x))), or where the model weighs inputs fc1's fc1(weight * x). Biases, where
// experts have them, are added by ops of their own.
class Experts {
 public:
  // Inputs of GEMMs in FP8, those of each expert, transposed. With static room they lie together.
  struct Fp8Inputs {
    std::vector<ops::Fp8Operand> each;
    Fp8Gemms::Together together;
  };
  struct Saved {
    Tensor x, wide, narrow;                     // the input, fc1's output, fc2's input unless that is dropped
    Tensor low_1, low_2;                        // of adapters
    Tensor weights;                             // [rows, 1] f32, where there are some
    Tensor unscaled, scales;                    // the input before the weights and these, where they multiply it
    Tensor unweighted;                          // the activation before the weights, where no kernel does both
    Fp8Inputs fp8_x, fp8_narrow;                // in FP8, in place of the input and the activation's output
    int fc1_group = -1, activation_group = -1;  // of what of it is on the host
    int stashed = -1;                           // of what of it is in pages
  };
  // `drop`: whether the output of the activation is dropped, to be recomputed from its input.
  Experts(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Weighted weighted, Regions drop = {});
  // x: [rows, hidden], the rows of an expert one after the other, experts in order.
  Tensor forward(Context& context, const ExpertRows& rows, Tensor x, Tensor weights, Saved& saved) const;
  // `dweights` gets the gradient of the weights, if there are some.
  Tensor backward(Context& context, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const;

  std::int64_t count() const { return fc1_->local[0]; }  // on this rank

 private:
  // The same once the input is weighted, if it is.
  Tensor forward_of(Context& context, const ExpertRows& rows, Tensor x, Tensor weights, Saved& saved) const;
  Tensor backward_of(Context& context, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const;
  Tensor forward_in_fp8(Context& context, const ExpertRows& rows, Tensor x, Saved& saved) const;
  Tensor backward_in_fp8(Context& context, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const;
  // What of `saved` goes to pages, where it is what a forward keeps.
  int stash(Context& context, const ExpertRows& rows, const Saved& saved) const;
  void add_bias(Context& context, const ExpertRows& rows, const Parameter* bias, const Tensor& y, const Tensor& weights,
                float share) const;
  // The gradient of fc2's bias from dy. Returns the bias's part of the gradient of the weights, if there are weights.
  Tensor bias_gradients(Context& context, const ExpertRows& rows, const Tensor& dy, const Saved& saved) const;
  // A GEMM of fc1 or fc2. Weights in 4 bits are dequantised before it: all together where the framework's module takes experts in groups, else
  // each before its own.
  void multiply(Context& context, ExpertGemm gemm, const Tensor& x, const Parameter& weight, const Tensor& y,
                const ExpertRows& rows) const;
  // fc2's input from `saved.wide`: in forward, where what it keeps may go to the host. activated_again() gives it again in backward, also
  // where it was dropped.
  Tensor activate_once(Context& context, Saved& saved) const;
  Tensor activated(Context& context, Saved& saved) const;
  Tensor activated_again(Context& context, Saved& saved) const;
  // The gradient of fc1's output from the gradient of fc2's input, which the callee may overwrite. Also adds the
  // gradient of fc1's bias, and `of_bias`, from fc2's bias, to dweights.
  Tensor gradient_of_wide(Context& context, const ExpertRows& rows, Tensor dnarrow, Saved& saved, Tensor& of_bias,
                          Tensor& dweights) const;
  Tensor gradient_of_activation(Context& context, Tensor dnarrow, Saved& saved, Tensor& dweights) const;

  Activation activation_;
  Weighted weighted_;
  Checkpoint activation_checkpoint_;
  OffloadedPiece fc1_piece_, activation_piece_;
  Parameter *fc1_, *fc2_;
  Parameter *fc1_bias_ = nullptr, *fc2_bias_ = nullptr;
  float share_of_bias_ = 1;  // of fc2's bias, which a rank adds to its part of a sum over etp
  std::optional<ExpertAdapter> adapter_1_, adapter_2_;
  const Nf4Weights* nf4_ = nullptr;  // that keeps the weights in 4 bits
  std::optional<Fp8Gemms> fp8_1_, fp8_2_;
};

}  // namespace mbench::nn
