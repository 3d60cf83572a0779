#include "engine/nn/layers/columns_norm.h"

#include "engine/nn/layers/norm.h"
#include "engine/ops/head_norm.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/run.h"

namespace mbench::nn {

ColumnsNorm::ColumnsNorm(ParameterStore& store, const NormSpec& spec, const Spread& tokens, const Spread& outputs,
                         const Spread& heads)
    : eps_(spec.eps), of_layers_(spec.kind == NormKind::layer_norm) {
  check(spec.gamma || !of_layers_, "columns norm", "{}, got a layer norm without gamma, need one", spec.name);
  if (spec.gamma) gamma_ = store.add(gamma_of(spec), spec.heads > 1 ? heads : Spread(), tokens, outputs);
  if (of_layers_ && spec.beta) beta_ = store.add(beta_of(spec), Spread(), tokens, outputs);
}

namespace {

// Of a layer norm, both in one tensor.
Tensor means(const Tensor& statistics) {
  return statistics.slice(0, 1).view({statistics.shape()[1]});
}
Tensor rstds(const Tensor& statistics) {
  return statistics.slice(1, 1).view({statistics.shape()[1]});
}

}  // namespace

void ColumnsNorm::forward(Context& c, const ops::Matrix& x, const ops::Matrix& y, std::int64_t batch,
                          Tensor& statistics) const {
  const std::int64_t rows = batch * x.rows;
  const Shape shape = of_layers_ ? Shape{2, rows} : Shape{rows};
  statistics =
      c.device.empty(shape, DType::f32, Category::activations, of_layers_ ? "norm mean and rstd" : "norm rstd");
  if (of_layers_)
    run(c.device, ops::HeadNorm{x, gamma_->value, value_of(beta_), y, means(statistics), rstds(statistics),
                                heads(x.cols), eps_, batch});
  else
    run(c.device, ops::RmsNorm{x, value_of(gamma_), y, statistics, eps_, batch});
}

void ColumnsNorm::backward(Context& c, const ops::Matrix& dy, const ops::Matrix& x, const ops::Matrix& dx,
                           std::int64_t batch, Tensor& statistics) const {
  if (of_layers_)
    run(c.device, ops::HeadNormGrad{dy, x, means(statistics), rstds(statistics), gamma_->value, dx, gradient_of(gamma_),
                                    gradient_of(beta_), heads(x.cols), batch});
  else
    run(c.device, ops::RmsNormGrad{dy, x, statistics, value_of(gamma_), {}, dx, gradient_of(gamma_), batch});
  statistics.reset();
}

}  // namespace mbench::nn
