// The GEMMs of a linear layer, in the model's type or in FP8. They also say in what form activations travel, and what of the input is
// kept for backward. An operand is quantised before it travels where its scales allow that.
#pragma once
#include <memory>
#include <vector>

#include "engine/nn/linear/fp8_tensor.h"
#include "engine/nn/linear/operand.h"
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

class Nf4Weights;

// What a forward keeps for its backward.
struct LinearSaved {
  Tensor x;  // as it arrived: under sequence parallelism this rank's part
  // In place of x in FP8: transposed, or, where x is gathered, this rank's part as it is.
  Fp8Tensor quantised{};
  Shape shape{};          // of x then
  bool own_side = false;  // `quantised` has the transposed side of this rank's part
  // In place of x, as the framework's GEMMs keep it (Keeps::gathered_inputs): the input of all ranks, in FP8 its codes. Where each GEMM
  // gathers for itself, each one's.
  std::vector<Tensor> gathered{};
  Tensor low{};  // of an adapter
  void forget_input() { x.reset(), gathered.clear(); }
};

// Where a layer's GEMMs stand: their weight, and what activations exchange before and after them.
struct LinearSite {
  Parameter* weight = nullptr;
  std::int64_t begin = 0, count = 0;  // outputs of this rank, where the weight is whole on all; 0: all of the weight's
  Transition input, output;
  bool overlaps = false;  // exchanges over tp overlap with the GEMMs (plan.tp_comm_overlap)
  bool adapted = false;   // an adapter reads the input too

  // The rows of a weight or a bias, or of its gradient, that make this rank's outputs.
  Tensor rows(const Tensor& t) const { return count == 0 ? t : t.slice(begin, count); }
  std::int64_t outputs() const { return count == 0 ? weight->local[0] : count; }
  // Whether backward needs the input: for the gradient of the weight, or for an adapter.
  bool keeps_input() const { return weight->trains || adapted; }
  // Whether that is the input of all ranks of tp.
  bool keeps_gathered(const Context& context) const;
  // Whether an activation is multiplied by parts as they arrive, and whether the output leaves in pieces.
  bool rings(const Exchanges& exchanges) const;
  bool leaves_in_pieces() const;
};

// Some of the outputs, in a tensor of their own: rows [first, first + count) of each of `groups` groups of `width`
// rows. With `step` 2, every second row from `first` on.
struct SomeOutputs {
  std::int64_t groups = 1, width = 0, first = 0, count = 0, step = 1;
};

class LinearGemms {
 public:
  enum class Side { outputs, input_gradient };  // what a weight is multiplied for
  // What a GEMM also does, for the rows at hand, where fuses().
  struct Also {
    Tensor bias{};
    Tensor gelu_input{};       // gets the output with its bias; what is written is its GELU
    Tensor gelu_grad_input{};  // the output is multiplied by the derivative of GELU there
  };

  virtual ~LinearGemms() = default;
  virtual bool fuses() const = 0;

  virtual Operand weight(Context& context, const LinearSite& site, Side side) const = 0;
  // Outputs [first, first + count) of a weight for outputs; both are multiples of multiple_of_outputs().
  virtual Operand part_of(const Operand& weight, std::int64_t first, std::int64_t count) const = 0;
  virtual std::int64_t multiple_of_outputs() const = 0;
  // out [seq, batch, outputs or inputs] = a times the weight.
  virtual void multiply(Context& context, const Operand& a, const Operand& weight, Side side, const Tensor& out,
                        const Also& also) const = 0;
  // Only those outputs, without a bias; `y`: [seq, batch, groups * count].
  virtual void multiply_some(Context& context, const LinearSite& site, const Operand& input, const SomeOutputs& which,
                             const Tensor& y) const = 0;

  // The input in flight; `saved` gets what backward needs of it.
  virtual std::unique_ptr<Arriving> input(Context& context, const LinearSite& site, const Tensor& x,
                                          LinearSaved& saved) const = 0;
  // The input in one piece, for several GEMMs. The caller keeps what backward needs.
  virtual Operand whole_input(Context& context, const LinearSite& site, const Tensor& x) const = 0;
  virtual std::unique_ptr<Arriving> gradient(Context& context, const LinearSite& site, const Tensor& dy) const = 0;
  // `starts`: it begins to travel now. Otherwise finish() fetches it.
  virtual std::unique_ptr<ArrivingAgain> input_again(Context& context, const LinearSite& site, const LinearSaved& saved,
                                                     bool starts) const = 0;
  // Adds to the weight's gradient, and to `bias_gradient` if there is one and fuses().
  virtual void add_weight_gradient(Context& context, const LinearSite& site, const Operand& gradient,
                                   const Operand& input, const Tensor& bias_gradient) const = 0;
};

// In the model's type. `nf4`, which may be null, keeps the weight in 4 bits; it is dequantised for each use.
std::shared_ptr<const LinearGemms> gemms_in_model_type(const Nf4Weights* nf4);
// In FP8. `keep_input`: the input is kept as it arrives, and quantised again in backward.
std::shared_ptr<const LinearGemms> gemms_in_fp8(ParameterStore& store, const LinearSite& site, const Plan& plan,
                                                bool keep_input);

}  // namespace mbench::nn
