#include "engine/nn/linear.h"

#include <utility>

#include "engine/nn/communicate.h"
#include "engine/ops/ops.h"

namespace mbench {

Linear::Linear(const Plan& plan, Parameter* weight, const LinearPlan& linear, Parameter* bias)
    : weight_(weight),
      bias_(bias),
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

// With a bias it is added by the product; with `gelu` so is the GELU, and its input kept there.
Tensor Linear::multiply(Context& c, const Tensor& x, Saved& saved, const Tensor& bias,
                        GeluInput* gelu) const {
  saved.x = x;
  const Tensor whole = communicate_briefly(c, input_.forward, x);
  const Shape &s = whole.shape(), wide = {s[0], s[1], weight_->local[0]};
  if (gelu) gelu->x = c.activation(wide, "linear output");
  const Tensor y = c.activation(wide, gelu ? "gelu output" : "linear output");
  ops::Matmul product{ops::Matrix(whole), ops::Matrix(weight_->value).t(), ops::Matrix(y)};
  product.bias = bias;
  if (gelu) product.gelu_input = gelu->x;
  run(c.device, product);
  return communicate(c, output_.forward, y);
}

Tensor Linear::forward(Context& c, const Tensor& x, Saved& saved) const {
  return multiply(c, x, saved, Tensor(), nullptr);
}

// A product that is yet to be summed over ranks cannot add a bias, nor apply what is not linear.
Tensor Linear::forward_with_bias(Context& c, const Tensor& x, Saved& saved) const {
  if (c.graph().fused_epilogues && output_.forward == Collective::none)
    return multiply(c, x, saved, bias(), nullptr);
  const Tensor y = forward(c, x, saved);
  run(c.device, ops::BiasAdd{y, bias(), y});
  return y;
}

Tensor Linear::forward_with_gelu(Context& c, const Tensor& x, Saved& saved, GeluInput& gelu) const {
  if (c.graph().fused_epilogues && output_.forward == Collective::none)
    return multiply(c, x, saved, bias(), &gelu);
  gelu = {forward(c, x, saved), bias()};
  const Tensor y = c.activation(gelu.x.shape(), "gelu output");
  run(c.device, ops::BiasGelu{gelu.x, gelu.bias, y});
  return y;
}

Tensor Linear::backward(Context& c, const Tensor& dy, Saved& saved) const {
  return backward(c, dy, saved, nullptr);
}

Tensor Linear::backward_with_gelu(Context& c, const Tensor& dy, Saved& saved, GeluInput& gelu) const {
  return backward(c, dy, saved, &gelu);
}

Tensor Linear::backward(Context& c, const Tensor& dy, Saved& saved, GeluInput* gelu) const {
  const bool fused = c.graph().fused_epilogues;
  // The bias belongs to the output: what the weight's gradient sees of it is the same only if nothing
  // travelled.
  const bool fused_bias = fused && output_.backward == Collective::none;
  if (bias_ && !fused_bias) run(c.device, ops::BiasGrad{dy, bias_->gradient});
  const Tensor dproduct = communicate(c, output_.backward, dy);
  const Shape& s = dproduct.shape();
  // The input travels while its gradient is computed, and that while the weight's is.
  Communication input(c, input_.forward, saved.x, Communication::Use::brief);
  Tensor dx = c.activation({s[0], s[1], weight_->local[1]}, "linear input gradient");
  ops::Matmul input_gradient{ops::Matrix(dproduct), ops::Matrix(weight_->value), ops::Matrix(dx)};
  if (gelu && fused && !gelu->bias && input_.backward == Collective::none) {
    input_gradient.gelu_grad_input = gelu->x;
    *std::exchange(gelu, nullptr) = {};
  }
  run(c.device, input_gradient);
  input_gradient = {};
  Communication travelling(c, input_.backward, dx);
  dx.reset();
  const Tensor x = input.finish();
  ops::Matmul weight_gradient{ops::Matrix(dproduct).t(), ops::Matrix(x), ops::Matrix(weight_->gradient)};
  weight_gradient.beta = 1;
  if (bias_ && fused_bias) weight_gradient.bias_gradient = bias_->gradient;
  run(c.device, weight_gradient);
  saved.x.reset();
  dx = travelling.finish();
  if (gelu) {
    run(c.device, ops::BiasGeluGrad{dx, gelu->x, gelu->bias, dx});
    *gelu = {};
  }
  return dx;
}

}  // namespace mbench
