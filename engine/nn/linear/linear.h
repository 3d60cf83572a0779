// y = x W^T (+ b): column parallel, row parallel or whole, as its LinearPlan says; it does not know which. LinearGemms multiply, in the
// model's type or in FP8. Transitions bring activations to a GEMM and from it, overlapped or not. A weight that is frozen gets no gradient,
// and its input is kept only for an adapter's.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/device/in_parts.h"
#include "engine/nn/linear/adapter.h"
#include "engine/nn/linear/linear_gemms.h"
#include "engine/nn/linear/separate_gemms.h"
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

class Linear {
 public:
  using Saved = LinearSaved;
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

  // Its outputs are those of so many layers of a framework, of these relative sizes (Keeps::separate_projections).
  void stands_for(const Plan& plan, const TensorParts& parts) {
    if (plan.keeps().separate_projections) parts_ = parts;
  }
  const TensorParts& parts() const { return parts_; }

  // [seq, batch, in] -> [seq, batch, out] in their places, without the bias: whoever adds it (fused with what
  // comes next) reads bias().
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // The same with its bias, if it has one. Fused graphs leave it to the GEMM.
  Tensor forward_with_bias(Context& context, const Tensor& x, Saved& saved) const;
  Tensor forward(Context& context, const Tensor& x, Saved& saved, const Epilogue& epilogue) const;

  // Keeps what backward needs of x, and leaves the output where nobody asks for it.
  void restore(Context& context, const Tensor& x, Saved& saved) const;

  // Some of the outputs, for a layer whose output stays where the GEMM makes it, without the bias.
  using Outputs = SomeOutputs;
  // The input where and as the GEMM needs it; arrive() brings it there.
  struct Arrived {
    Operand input;
    std::int64_t batch = 0;
  };
  Tensor make(Context& context, const Arrived& arrived, const Outputs& outputs) const;
  Arrived arrive(Context& context, const Tensor& x) const;
  // `own`, which arrived so, is what backward needs of the input.
  void keep_input(const Context& context, Tensor own, const Arrived& arrived, Saved& saved) const;

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
  bool trains() const { return site_.weight->trains; }
  const Shape& weight_shape() const { return site_.weight->local; }

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
  std::int64_t local_outputs() const { return site_.outputs(); }
  Tensor bias() const { return bias_ ? site_.rows(bias_->value) : Tensor(); }

 private:
  void add_bias(ParameterStore& store, const LinearSpec& spec, const LinearPlan& linear);
  void add_bias_gradient(Context& context, const Tensor& dy) const;
  // Whether GEMMs do what comes before and after them.
  bool fuses(const Context& context) const;

  LinearSite site_;
  Parameter* bias_ = nullptr;
  bool bias_of_gemm_ = false;  // is added before outputs are gathered, not to the output
  bool table_ = false;         // the weight is a table of words
  std::shared_ptr<const LinearGemms> gemms_;
  std::optional<SeparateGemms> separate_;  // in place of one GEMM
  TensorParts parts_{};
  std::optional<Adapter> adapter_;
};

}  // namespace mbench::nn
