#include "engine/nn/linear.h"

#include "engine/nn/communicate.h"
#include "engine/ops/ops.h"

namespace mbench {

Linear::Linear(const Plan& plan, Parameter* weight, const LinearPlan& linear)
    : weight_(weight),
      input_(Transition::between(linear.input, linear.consumed, plan.mesh.size(Axis::tp))),
      output_(Transition::between(linear.product, linear.output, plan.mesh.size(Axis::tp))) {}

Linear::Linear(ParameterStore& store, const Plan& plan, const std::string& name, Shape2 shape,
               const LinearPlan& linear, float stddev)
    : Linear(plan, nullptr, linear) {
  // A weight that is whole on every rank but acts on a part of the sequence has a partial gradient; so has
  // the bias of a layer whose output is spread along the sequence.
  const bool spread = plan.hidden_is_sharded();
  const bool spread_input =
      spread && linear.weight.kind == Placement::Kind::replicate && linear.input == plan.hidden;
  weight_ = store.add({.name = name + ".weight",
                       .shape = {shape.out, shape.in},
                       .placement = linear.weight,
                       .stddev = stddev,
                       .partial_over_tp = spread_input});
  const bool split_rows = linear.weight.sharded(0);
  bias_ = store.add({.name = name + ".bias",
                     .shape = {shape.out},
                     .placement = split_rows ? shard(0) : replicate,
                     .partial_over_tp = spread && !split_rows && linear.output == plan.hidden});
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved) const {
  saved.x = x;
  const Tensor whole = communicate_briefly(c, input_.forward, x);
  const Shape& s = whole.shape();
  const Tensor y = c.activation({s[0], s[1], weight_->local[0]}, "linear output");
  run(c.device, ops::Matmul{ops::Matrix(whole), ops::Matrix(weight_->value).t(), ops::Matrix(y)});
  return communicate(c, output_.forward, y);
}

Tensor Linear::backward(Context& c, const Tensor& dy, Saved& saved) const {
  if (bias_) run(c.device, ops::BiasGrad{dy, bias_->gradient});
  const Tensor dproduct = communicate(c, output_.backward, dy);
  const Shape& s = dproduct.shape();
  // The input travels while its gradient is computed, and that while the weight's is.
  Communication input(c, input_.forward, saved.x, Communication::Use::brief);
  Tensor dx = c.activation({s[0], s[1], weight_->local[1]}, "linear input gradient");
  run(c.device, ops::Matmul{ops::Matrix(dproduct), ops::Matrix(weight_->value), ops::Matrix(dx)});
  Communication travelling(c, input_.backward, dx);
  dx.reset();
  const Tensor x = input.finish();
  ops::Matmul weight_gradient{ops::Matrix(dproduct).t(), ops::Matrix(x), ops::Matrix(weight_->gradient)};
  weight_gradient.beta = 1;
  run(c.device, weight_gradient);
  saved.x.reset();
  return travelling.finish();
}

}  // namespace mbench
