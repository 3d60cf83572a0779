#include "engine/nn/norm.h"

#include "engine/ops/ops.h"

namespace mbench {

Norm::Norm(ParameterStore& store, const Plan& plan, const NormSpec& spec) {
  if (spec.kind != NormKind::layer_norm)
    fail(ErrorKind::unsupported, "norm", "{} is not built into this binary, need layer_norm",
         name_of(spec.kind));
  gamma_ = store.add(gamma_of(spec), Spread(), plan.hidden.value);
  beta_ = store.add(beta_of(spec), Spread(), plan.hidden.value);
}

Tensor Norm::forward(Context& c, const Tensor& x, Saved& saved) const {
  const Shape rows{x.shape().rows()};
  saved.x = x;
  saved.mean = c.device.empty(rows, DType::f32, Category::activations, "norm mean");
  saved.rstd = c.device.empty(rows, DType::f32, Category::activations, "norm rstd");
  const Tensor y = c.activation(x.shape(), "norm output");
  run(c.device, ops::LayerNorm{x, gamma_->value, beta_->value, y, saved.mean, saved.rstd});
  return y;
}

Tensor Norm::backward(Context& c, const Tensor& dy, const Tensor& residual, Saved& saved) const {
  const Tensor dx = c.activation(dy.shape(), "norm input gradient");
  const bool fused = c.graph().fused_residual_grad;
  run(c.device, ops::LayerNormGrad{dy, saved.x, saved.mean, saved.rstd, gamma_->value,
                                   fused ? residual : Tensor(), dx, gamma_->gradient, beta_->gradient});
  if (residual && !fused) run(c.device, ops::Add{dx, residual, dx});
  saved = {};
  return dx;
}

}  // namespace mbench
