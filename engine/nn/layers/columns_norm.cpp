#include "engine/nn/layers/columns_norm.h"

#include "engine/nn/layers/norm.h"
#include "engine/ops/matrix.h"
#include "engine/ops/rms_norm.h"
#include "engine/ops/run.h"

namespace mbench::nn {

ColumnsNorm::ColumnsNorm(ParameterStore& store, const NormSpec& spec, const Spread& tokens, const Spread& outputs)
    : eps_(spec.eps) {
  if (spec.gamma) gamma_ = store.add(gamma_of(spec), Spread(), tokens, outputs);
  check(spec.kind == NormKind::rms_norm, "columns norm", "{}, got {}, need rms_norm", spec.name, name_of(spec.kind));
}

void ColumnsNorm::forward(Context& c, const ops::Matrix& x, const ops::Matrix& y, std::int64_t batch,
                          Tensor& rstd) const {
  rstd = c.device.empty({batch * x.rows}, DType::f32, Category::activations, "norm rstd");
  run(c.device, ops::RmsNorm{x, value_of(gamma_), y, rstd, eps_, batch});
}

void ColumnsNorm::backward(Context& c, const ops::Matrix& dy, const ops::Matrix& x, const ops::Matrix& dx,
                           std::int64_t batch, Tensor& rstd) const {
  run(c.device, ops::RmsNormGrad{dy, x, rstd, value_of(gamma_), {}, dx, gradient_of(gamma_), batch});
  rstd.reset();
}

}  // namespace mbench::nn
