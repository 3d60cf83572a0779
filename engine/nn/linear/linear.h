// y = x W^T (+ b): column parallel, row parallel or whole, as its LinearPlan says; it does not know which. A weight that is frozen gets no
// gradient, and its input is kept only for an adapter's.
#pragma once
#include <optional>
#include <vector>

#include "engine/nn/linear/adapter.h"
#include "engine/nn/linear/fp8.h"
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench {

class Linear {
 public:
  struct Saved {
    Tensor x;  // as it arrived: under sequence parallelism this rank's part
    // In place of x in FP8: transposed, or, where x is gathered, this rank's part as it is.
    Fp8Tensor quantised{};
    Shape shape{};                   // of x then
    bool own_side = false;           // `quantised` has the transposed side of this rank's part
    std::vector<Tensor> gathered{};  // in place of x, where each GEMM gathers for itself
    Tensor low{};                    // of an adapter
  };
  // What a forward's GEMM also does, where fuses_output() allows it.
  struct Epilogue {
    bool bias = false;
    Tensor* gelu_input = nullptr;  // gets x W^T + b; the output is its GELU
  };

  // With parameters of its own, laid out as the plan says for the layer's role, or as `linear` says.
  Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec);
  Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear);
  // With parameters of its own that are whole on every rank. This rank makes only outputs [begin, begin + count).
  Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear, std::int64_t begin,
         std::int64_t count);
  // On a table that lives elsewhere (a tied embedding); the bias, if the layer has one, is its own.
  Linear(ParameterStore& store, const Plan& plan, const LinearSpec& spec, Parameter* table);

  // [seq, batch, in] -> [seq, batch, out] in their places, without the bias: whoever adds it (fused with what
  // comes next) reads bias().
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // The same with its bias, if it has one. Fused graphs leave it to the GEMM.
  Tensor forward_with_bias(Context& context, const Tensor& x, Saved& saved) const;
  Tensor forward(Context& context, const Tensor& x, Saved& saved, const Epilogue& epilogue) const;

  // Some of the outputs, in a tensor of their own: rows [first, first + count) of each of `groups` groups of `width`
  // rows. With `step` 2, every second row from `first` on. For a layer whose output stays where the GEMM makes it,
  // without the bias.
  struct Outputs {
    std::int64_t groups = 1, width = 0, first = 0, count = 0, step = 1;
  };
  // The input where and as the GEMM needs it; arrive() brings it there.
  struct Arrived {
    Tensor x;
    ops::Fp8Operand quantised{};  // in place of x, where the GEMM is in FP8
    std::int64_t batch = 0;
  };
  Tensor make(Context& context, const Arrived& arrived, const Outputs& outputs) const;
  Arrived arrive(Context& context, const Tensor& x) const;

  // dy is the gradient of the output with bias. Accumulates the weight's and bias's gradients, frees what was saved and
  // returns dx. `gelu_input`, where fuses_input_gradient(): x was its GELU, and dx is the gradient of `gelu_input`.
  Tensor backward(Context& context, Tensor dy, Saved& saved, Tensor gelu_input = {}) const;
  // The same without the gradient of the weight: `later` gets the operands of its GEMM. Not for a layer in FP8.
  Tensor backward_deferred(Context& context, const Tensor& dy, Saved& saved, DeferredGemm& later) const;
  // Makes the deferred gradients of weights, in their order. A gathered input is in flight while the one before is
  // used.
  static void make_deferred(Context& context, std::vector<DeferredGemm> gemms);

  // For a loss of some rows at a time: [rows, 1, in] -> [rows, 1, out] with all outputs here, without a bias, and the gradients. `first`:
  // `dweight` is written, else added to.
  Tensor rows_forward(Context& context, const Tensor& x) const;
  void rows_backward(Context& context, const Tensor& dy, const Tensor& x, const Tensor& dx, const Tensor& dweight,
                     bool first) const;
  // Adds a gradient of the whole weight that is there already.
  void add_gradient(Context& context, const Tensor& dweight) const;
  bool trains() const { return weight_->trains; }
  const Shape& weight_shape() const { return weight_->local; }

  // Marks a linear part of a layer, not a router or what makes logits. It computes in FP8, and overlaps its exchanges
  // over tp with its GEMMs, if the plan says so. `keep_input`: the input is kept as it arrives, since it is dropped and
  // recomputed next to the layer (Transformer Engine's save_original_input). In FP8 backward quantises it again, and
  // its GEMM waits for all of it. `gemms`: how many GEMMs a framework that does not fuse them makes of it.
  void in_layer(ParameterStore& store, const Plan& plan, bool keep_input = false, std::int64_t gemms = 1);

  // Whether a GEMM can apply an epilogue to its output: not if the output is yet to be summed over ranks.
  bool fuses_output(const Context& context) const;
  // Whether backward's GEMM can apply what came before the layer to the gradient of its input.
  bool fuses_input_gradient(const Context& context) const;

  // Whether a reduce-scatter sums the output.
  bool scatters_output() const;
  std::int64_t local_outputs() const { return count_ == 0 ? weight_->local[0] : count_; }
  Tensor bias() const { return bias_ ? rows(bias_->value) : Tensor(); }

 private:
  // The rows of a weight or a bias, or of its gradient, that make this rank's outputs.
  Tensor rows(const Tensor& t) const { return count_ == 0 ? t : t.slice(begin_, count_); }

  // The weight as GEMMs in the model's type read it. One in 4 bits is dequantised for this use.
  Tensor weight(Context& context) const;

  Tensor forward_in_fp8(Context& context, const Tensor& x, Saved& saved) const;
  // The input quantised, where the GEMM needs it; and what backward needs of it.
  ops::Fp8Operand arrive_in_fp8(Context& context, const Tensor& x, bool keep_input, Saved& saved) const;
  Tensor backward_in_fp8(Context& context, Tensor dy, Saved& saved) const;
  // Where the weight is frozen.
  Tensor forward_frozen_in_fp8(Context& context, const Tensor& x, Saved& saved) const;
  Tensor backward_frozen_in_fp8(Context& context, const Tensor& dy, Saved& saved) const;
  Tensor forward_separate(Context& context, const Tensor& x, Saved& saved) const;
  Tensor backward_separate(Context& context, const Tensor& dy, Saved& saved) const;
  void add_bias(ParameterStore& store, const LinearSpec& spec, const LinearPlan& linear);
  // Whether backward needs the input: for the gradient of the weight, or for an adapter.
  bool keeps_input() const { return weight_->trains || adapter_; }
  void add_bias_gradient(Context& context, const Tensor& dy) const;
  void add_weight_gradient(Context& context, const Tensor& dproduct, const Tensor& x, bool with_bias) const;
  void add_weight_gradient_in_fp8(Context& context, const ops::Fp8Operand& dproduct, const ops::Fp8Operand& x) const;
  // Whether the input is multiplied by parts as they arrive, and whether the output leaves in pieces. In backward the
  // output's gradient is multiplied as the input is in forward.
  bool rings(const Exchanges& exchanges) const;
  bool leaves_in_pieces() const;

  Parameter* weight_;
  Parameter* bias_ = nullptr;
  std::int64_t begin_ = 0, count_ = 0;  // 0: all of the parameter's
  std::int64_t gemms_ = 0;              // GEMMs that gather the input each for itself; 0: it is gathered once for all
  bool table_ = false;                  // the weight is a table of words
  Transition input_, output_;
  bool bias_of_gemm_ = false;  // is added before outputs are gathered, not to the output
  std::optional<Adapter> adapter_;
  std::optional<Fp8Gemms> fp8_;
  const Nf4Weights* nf4_ = nullptr;  // that keeps the weight in 4 bits
  bool keep_input_ = false, overlaps_ = false;
};

}  // namespace mbench
