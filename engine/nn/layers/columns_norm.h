// RMS norm of parts of rows: of every head of queries or keys, or of a latent that lies packed with others. One gamma for
// all of them, whole on every rank, or none.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/matrix.h"

namespace mbench::nn {

class ColumnsNorm {
 public:
  // `tokens` and `outputs`: along which axes the rows are split (plan/placement.h: reduce_over).
  ColumnsNorm(ParameterStore& store, const NormSpec& spec, const Spread& tokens, const Spread& outputs);
  // Norms the columns of `batch` matrices x into as many y. The gradient needs x and `rstd`.
  void forward(Context& context, const ops::Matrix& x, const ops::Matrix& y, std::int64_t batch, Tensor& rstd) const;
  // Writes dx, which may be dy; accumulates gamma's gradient and frees rstd.
  void backward(Context& context, const ops::Matrix& dy, const ops::Matrix& x, const ops::Matrix& dx,
                std::int64_t batch, Tensor& rstd) const;

 private:
  float eps_;
  Parameter* gamma_ = nullptr;
};

}  // namespace mbench::nn
