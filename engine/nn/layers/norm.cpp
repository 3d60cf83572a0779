#include "engine/nn/layers/norm.h"

#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/layer_norm.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/run.h"
#include "engine/plan/framework.h"

namespace mbench::nn {

Norm::Norm(ParameterStore& store, const Plan& plan, const NormSpec& spec)
    : eps_(spec.eps), of_layers_(spec.kind == NormKind::layer_norm) {
  if (spec.gamma) gamma_ = store.add(gamma_of(spec), Spread(), plan.hidden.value);
  if (of_layers_ && spec.beta) beta_ = store.add(beta_of(spec), Spread(), plan.hidden.value);
}

Tensor Norm::forward(Context& c, const Tensor& x, Saved& saved) const {
  const auto statistics = [&](std::string_view what) {
    return c.device.empty({x.shape().rows()}, DType::f32, Category::activations, what);
  };
  saved.x = x;
  if (of_layers_) saved.mean = statistics("norm mean");
  saved.rstd = statistics("norm rstd");
  const Tensor y = c.activation(x.shape(), "norm output");
  if (of_layers_)
    run(c.device, ops::LayerNorm{x, value_of(gamma_), value_of(beta_), y, saved.mean, saved.rstd, eps_});
  else
    run(c.device, ops::RmsNorm{ops::Matrix(x), value_of(gamma_), ops::Matrix(y), saved.rstd, eps_});
  if (of_layers_ && under_autocast(c.plan)) keep_in_f32(c, saved);
  const bool unfused = c.keeps().unfused_norm || (last_ && c.keeps().unfused_last_norm);
  if (unfused && !of_layers_) keep_unfused(c, y, saved);
  return y;
}

void Norm::keep_in_f32(Context& c, Saved& saved) {
  if (saved.x.dtype() == DType::f32) return;
  saved.wide = c.device.empty(saved.x.shape(), DType::f32, Category::activations, "norm input in f32");
  run(c.device, ops::Copy{saved.x, saved.wide});
  saved.x.reset();
}

// The second stands for what PyTorch keeps; the gradient below is made without it.
void Norm::keep_unfused(Context& c, const Tensor& y, Saved& saved) const {
  keep_in_f32(c, saved);
  saved.normalised = c.activation(y.shape(), "normalised rows");
  run(c.device, ops::Copy{y, saved.normalised});
}

Tensor Norm::input(Context& c, Saved& saved) {
  if (!saved.x) {
    saved.x = c.activation(saved.wide.shape(), "norm input");
    run(c.device, ops::Copy{saved.wide, saved.x});
  }
  return saved.x;
}

Tensor Norm::backward(Context& c, const Tensor& dy, const Tensor& residual, Saved& saved) const {
  input(c, saved);
  const Tensor dx = c.activation(dy.shape(), "norm input gradient");
  const bool fused = c.keeps().fused_residual_grad;
  const Tensor added = fused ? residual : Tensor();
  if (of_layers_)
    run(c.device, ops::LayerNormGrad{dy, saved.x, saved.mean, saved.rstd, value_of(gamma_), added, dx,
                                     gradient_of(gamma_), gradient_of(beta_)});
  else
    run(c.device, ops::RmsNormGrad{ops::Matrix(dy), ops::Matrix(saved.x), saved.rstd, value_of(gamma_),
                                   added ? ops::Matrix(added) : ops::Matrix(), ops::Matrix(dx), gradient_of(gamma_)});
  if (residual && !fused) run(c.device, ops::Add{dx, residual, dx});
  saved = {};
  return dx;
}

}  // namespace mbench::nn
