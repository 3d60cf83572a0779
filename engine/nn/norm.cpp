#include "engine/nn/norm.h"

#include "engine/ops/add.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/run.h"

namespace mbench {

Norm::Norm(ParameterStore& store, const Plan& plan, const NormSpec& spec)
    : eps_(spec.eps), gamma_(store.add(gamma_of(spec), Spread(), plan.hidden.value)) {
  if (spec.kind == NormKind::layer_norm) beta_ = store.add(beta_of(spec), Spread(), plan.hidden.value);
}

Tensor Norm::forward(Context& c, const Tensor& x, Saved& saved) const {
  const auto statistics = [&](std::string_view what) {
    return c.device.empty({x.shape().rows()}, DType::f32, Category::activations, what);
  };
  saved.x = x;
  if (beta_) saved.mean = statistics("norm mean");
  saved.rstd = statistics("norm rstd");
  const Tensor y = c.activation(x.shape(), "norm output");
  if (beta_)
    run(c.device, ops::LayerNorm{x, gamma_->value, beta_->value, y, saved.mean, saved.rstd, eps_});
  else
    run(c.device, ops::RmsNorm{ops::Matrix(x), gamma_->value, ops::Matrix(y), saved.rstd, eps_});
  return y;
}

Tensor Norm::backward(Context& c, const Tensor& dy, const Tensor& residual, Saved& saved) const {
  const Tensor dx = c.activation(dy.shape(), "norm input gradient");
  const bool fused = c.keeps().fused_residual_grad;
  const Tensor added = fused ? residual : Tensor();
  if (beta_)
    run(c.device, ops::LayerNormGrad{dy, saved.x, saved.mean, saved.rstd, gamma_->value, added, dx,
                                     gamma_->gradient, beta_->gradient});
  else
    run(c.device,
        ops::RmsNormGrad{ops::Matrix(dy), ops::Matrix(saved.x), saved.rstd, gamma_->value,
                         added ? ops::Matrix(added) : ops::Matrix(), ops::Matrix(dx), gamma_->gradient});
  if (residual && !fused) run(c.device, ops::Add{dx, residual, dx});
  saved = {};
  return dx;
}

}  // namespace mbench
