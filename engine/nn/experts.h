// The experts of a mixture that are on this rank, and the way of the rows to them and back.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/nn/activation.h"
#include "engine/nn/recompute.h"
#include "engine/ops/expert_bias.h"

namespace mbench {

// How many rows each expert has: all the same number, or what stands between the offsets.
struct ExpertRows {
  std::int64_t each = 0;
  std::vector<std::int64_t> offsets;  // [experts + 1] where `each` is 0
};

// y = fc2(activation(fc1(x))), every row by its expert: products in groups. With weights, a number for each row: weight times that, which
// fc2's product takes as fc2(weight * activation(fc1(x))). Biases, where experts have them, are added by ops of their own.
class Experts {
 public:
  struct Saved {
    Tensor x, wide, narrow;  // the input, fc1's output, fc2's input unless that is dropped
    Tensor weights;          // [rows, 1] f32, where there are some
    Tensor unweighted;       // the activation before them, where no kernel does both
    // In FP8 in place of the input and the activation's output: of each expert, transposed.
    std::vector<ops::Fp8Operand> fp8_x, fp8_narrow;
  };
  // `drop`: whether the output of the activation is dropped, to be made again of its input.
  Experts(ParameterStore& store, const Plan& plan, const MlpSpec& spec, Regions drop = {});
  // x: [rows, hidden], the rows of an expert one after the other, experts in order.
  Tensor forward(Context& context, const ExpertRows& rows, Tensor x, Tensor weights, Saved& saved) const;
  // `dweights` gets the gradient of the weights, if there are some.
  Tensor backward(Context& context, const ExpertRows& rows, Tensor dy, Saved& saved, Tensor& dweights) const;

  std::int64_t count() const { return fc1_->local[0]; }  // on this rank

 private:
  Tensor forward_in_fp8(Context& context, const ExpertRows& all, Tensor x, Saved& saved) const;
  Tensor backward_in_fp8(Context& context, const ExpertRows& all, Tensor dy, Saved& saved, Tensor& dweights) const;
  void add_bias(Context& context, const ExpertRows& rows, const Parameter* bias, const Tensor& y, const Tensor& weights,
                float share) const;
  // fc2's gradients of a bias, from that of y; what is returned is the part of the weights' gradients that comes by it, if it has one.
  Tensor bias_gradients(Context& context, const ExpertRows& rows, const Tensor& dy, const Saved& saved) const;
  // fc2's input from `saved.wide`, and that again where it is dropped; and from its gradient, the callee's to overwrite, that of fc1's output.
  Tensor activated(Context& context, Saved& saved) const;
  Tensor activated_again(Context& context, Saved& saved) const;
  // With those of fc1's bias, and to dweights what comes by fc2's added.
  Tensor gradient_of_wide(Context& context, const ExpertRows& rows, Tensor dnarrow, Saved& saved, Tensor& of_bias,
                          Tensor& dweights) const;
  Tensor gradient_of_activation(Context& context, Tensor dnarrow, Saved& saved, Tensor& dweights) const;

  Activation activation_;
  Checkpoint activation_checkpoint_;
  Parameter *fc1_, *fc2_;
  Parameter *fc1_bias_ = nullptr, *fc2_bias_ = nullptr;
  float share_of_bias_ = 1;  // of fc2's, that a rank adds to its part of a sum over etp
  std::optional<Fp8Gemms> fp8_1_, fp8_2_;
};

// How the rows of a micro batch are shared out where the data decide. Where every expert has as many, all of it is empty.
struct ExpertWay {
  std::vector<std::int64_t> sent, received;  // rows to and from each rank of ep
  // [received rows, at least one] i64: of rows by expert, which received one each is, and the other way round; -1: none.
  Tensor by_expert, by_rank;
};

// The way of `counts[rank][expert]` rows that the ranks have for the experts of this one, and of `sent` rows to each of them;
// `rows` gets how many each of the experts has.
ExpertWay way_of(Device& device, const std::vector<std::int64_t>& counts, std::vector<std::int64_t> sent,
                 ExpertRows& rows);

// Between rows by expert of all experts, on the rank whose tokens they are, and rows by expert of this rank's experts. One
// rank has nothing to exchange, nor have ranks to which tokens come as they are: both are the same tensor.
class ExpertExchange {
 public:
  explicit ExpertExchange(const Plan& plan)
      : ranks_(plan.ep_communication == EpCommunication::all_to_all ? plan.mesh.size(Axis::ep) : 1) {}

  // Under way: overlaps with what is enqueued until finish().
  class Travelling {
   public:
    Tensor finish();

   private:
    friend class ExpertExchange;
    Context* context_ = nullptr;
    Tensor in_, out_;
    std::unique_ptr<Pending> pending_;
    std::int64_t ranks_ = 1, experts_ = 0;  // experts of a rank, where what arrives is to be sorted by expert
    Tensor order_;                          // or by what
  };
  enum class Towards { experts, tokens };  // from the tokens' rank to that of their experts, or the same way back
  // `experts`: of this rank.
  Travelling send(Context& context, Tensor rows, std::int64_t experts, const ExpertWay& way, Towards towards) const;

 private:
  Travelling start(Context& context, Tensor rows) const;
  Travelling start(Context& context, Tensor rows, const std::vector<std::int64_t>& sent,
                   const std::vector<std::int64_t>& received) const;

  std::int64_t ranks_;
};

}  // namespace mbench
