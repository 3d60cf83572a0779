// An MoE's experts on this rank, and the exchange of rows with other ranks.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/layers/activation.h"
#include "engine/nn/moe/expert_adapter.h"
#include "engine/nn/runtime/offloaded_piece.h"
#include "engine/nn/runtime/recompute.h"
#include "engine/ops/expert_bias.h"

namespace mbench {

class Nf4Weights;

// y = fc2(activation(fc1(x))), every row by its expert: grouped GEMMs. With weights, a number for each row, fc2's GEMM
// computes fc2(weight * activation(fc1(x))), or where the model weighs inputs fc1's fc1(weight * x). Biases, where
// experts have them, are added by ops of their own.
class Experts {
 public:
  struct Saved {
    Tensor x, wide, narrow;   // the input, fc1's output, fc2's input unless that is dropped
    Tensor low_1, low_2;      // of adapters
    Tensor weights;           // [rows, 1] f32, where there are some
    Tensor unscaled, scales;  // the input before the weights and these, where they multiply it
    Tensor unweighted;        // the activation before the weights, where no kernel does both
    // In FP8, in place of the input and the activation's output: those of each expert, transposed.
    std::vector<ops::Fp8Operand> fp8_x, fp8_narrow;
    int fc1_group = -1, activation_group = -1;  // of what of it is on the host
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
  Tensor forward_in_fp8(Context& context, const ExpertRows& all, Tensor x, Saved& saved) const;
  Tensor backward_in_fp8(Context& context, const ExpertRows& all, Tensor dy, Saved& saved, Tensor& dweights) const;
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

// How many rows go where, where the data decide. All of it is empty where every expert has the same number of rows.
struct ExpertWay {
  std::vector<std::int64_t> sent, received;  // rows to and from each rank of ep
  // [received rows, at least one] i64: which received row each row by expert is, and the inverse; -1: none.
  Tensor by_expert, by_rank;
};

// How rows get to the experts: `counts[rank][expert]` rows come from the ranks for the experts of this one, and `sent`
// rows go to each rank. `rows` gets the number of rows of each expert.
ExpertWay way_of(Device& device, const std::vector<std::int64_t>& counts, std::vector<std::int64_t> sent,
                 ExpertRows& rows);

// Exchanges rows sorted by expert: from the rank of their tokens, with rows for all experts, to the ranks of the
// experts, and back. Without an exchange both are the same tensor: with one rank, or where ranks get tokens as they
// are.
class ExpertExchange {
 public:
  explicit ExpertExchange(const Plan& plan)
      : ranks_(plan.ep_communication == EpCommunication::all_to_all ? plan.mesh.size(Axis::ep) : 1) {}

  // In flight: overlaps with what is enqueued until finish().
  class Travelling {
   public:
    Tensor finish();

   private:
    friend class ExpertExchange;
    Context* context_ = nullptr;
    Tensor in_, out_;
    std::unique_ptr<Pending> pending_;
    std::int64_t ranks_ = 1, experts_ = 0;  // experts of a rank, where what arrives must be sorted by expert
    Tensor order_;                          // or the order to sort it by
  };
  enum class Towards { experts, tokens };  // from the tokens' rank to their experts' ranks, or back
  // `experts`: how many are on this rank.
  Travelling send(Context& context, Tensor rows, std::int64_t experts, const ExpertWay& way, Towards towards) const;

 private:
  Travelling start(Context& context, Tensor rows) const;
  Travelling start(Context& context, Tensor rows, const std::vector<std::int64_t>& sent,
                   const std::vector<std::int64_t>& received) const;

  std::int64_t ranks_;
};

}  // namespace mbench
