// RMS norm of parts of rows: of every head of queries or keys, or of a latent that lies packed with others. One gamma for
// all of them, whole on every rank, or none. Or a layer norm of heads, and each may have its own gamma.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/matrix.h"

namespace mbench::nn {

class ColumnsNorm {
 public:
  // `tokens` and `outputs`: along which axes the rows are split (plan/placement.h: reduce_over). `heads`: how gammas of
  // each head are cut.
  ColumnsNorm(ParameterStore& store, const NormSpec& spec, const Spread& tokens, const Spread& outputs,
              const Spread& heads = Spread());
  // Norms the columns of `batch` matrices x into as many y. The gradient needs x and the rows' statistics.
  void forward(Context& context, const ops::Matrix& x, const ops::Matrix& y, std::int64_t batch,
               Tensor& statistics) const;
  // Writes dx, which may be dy; accumulates the weights' gradients and frees the statistics.
  void backward(Context& context, const ops::Matrix& dy, const ops::Matrix& x, const ops::Matrix& dx,
                std::int64_t batch, Tensor& statistics) const;

 private:
  // With vectors of its own on this rank.
  std::int64_t heads(std::int64_t columns) const { return gamma_->value.numel() / columns; }
  float eps_;
  bool of_layers_;
  Parameter *gamma_ = nullptr, *beta_ = nullptr;
};

}  // namespace mbench::nn
