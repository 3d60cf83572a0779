// y = x W^T (+ b): column parallel, row parallel or whole, as its LinearPlan says; it does not know which.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class Linear {
 public:
  struct Shape2 {
    std::int64_t in = 0, out = 0;  // of the whole layer
  };
  struct Saved {
    Tensor x;  // as it arrived: under sequence parallelism this rank's part
  };

  // What a GELU's gradient is taken at: the input kept, plus the bias where that is not in it.
  struct GeluInput {
    Tensor x, bias;
  };

  // With parameters of its own, named name.weight and name.bias.
  Linear(ParameterStore& store, const Plan& plan, const std::string& name, Shape2 shape,
         const LinearPlan& linear, float stddev);
  // On a weight that lives elsewhere (tied embedding), with a bias that does too or without.
  Linear(const Plan& plan, Parameter* weight, const LinearPlan& linear, Parameter* bias = nullptr);

  // [seq, batch, in] -> [seq, batch, out] in their places, without the bias: whoever adds it (fused with what
  // comes next) reads bias().
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // The same with its bias; with its bias and GELU. Fused graphs leave both to the product.
  Tensor forward_with_bias(Context& context, const Tensor& x, Saved& saved) const;
  Tensor forward_with_gelu(Context& context, const Tensor& x, Saved& saved, GeluInput& gelu) const;
  // dy is the gradient of the output with bias. Accumulates the weight's and bias's gradients, frees what was
  // saved and returns dx.
  Tensor backward(Context& context, const Tensor& dy, Saved& saved) const;
  // The same where x was the GELU of `gelu`: returns the gradient of that, and frees it.
  Tensor backward_with_gelu(Context& context, const Tensor& dy, Saved& saved, GeluInput& gelu) const;

  const Tensor& bias() const { return bias_->value; }

 private:
  Tensor multiply(Context& context, const Tensor& x, Saved& saved, const Tensor& bias, GeluInput* gelu) const;
  Tensor backward(Context& context, const Tensor& dy, Saved& saved, GeluInput* gelu) const;

  Parameter* weight_;
  Parameter* bias_ = nullptr;
  Transition input_, output_;
};

}  // namespace mbench
