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

  // With parameters of its own, named name.weight and name.bias.
  Linear(ParameterStore& store, const Plan& plan, const std::string& name, Shape2 shape,
         const LinearPlan& linear, float stddev);
  // Without bias, on a weight that lives elsewhere (tied embedding).
  Linear(const Plan& plan, Parameter* weight, const LinearPlan& linear);

  // [seq, batch, in] -> [seq, batch, out] in their places, without the bias: whoever adds it (fused with what
  // comes next) reads bias().
  Tensor forward(Context& context, const Tensor& x, Saved& saved) const;
  // dy is the gradient of the output with bias. Accumulates the weight's and bias's gradients, frees what was
  // saved and returns dx.
  Tensor backward(Context& context, const Tensor& dy, Saved& saved) const;

  const Tensor& bias() const { return bias_->value; }

 private:
  Parameter* weight_;
  Parameter* bias_ = nullptr;
  Transition input_, output_;
};

}  // namespace mbench
