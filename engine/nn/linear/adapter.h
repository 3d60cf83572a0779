// The low-rank adapter of a linear layer whose weight is frozen (engine/point/adapter.h): y += scale * (x A^T) B^T.
//
// It needs no exchange of its own. Where the weight is cut by output, A is whole and B is cut as the weight is. Where the weight is cut by
// input, A is cut as it is and B is whole. What B makes is then partial, and is summed with the layer's own output. The gradient
// of the whole one is partial along the axes that the other is cut along, and is summed when backward ends.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

class Adapter {
 public:
  // `linear`: how the layer's own weight and activations lie.
  Adapter(ParameterStore& store, const Plan& plan, const LinearSpec& spec, const LinearPlan& linear);

  // Adds to `y`, the layer's GEMM's output, [seq, batch, out]; `x`: the GEMM's input, [seq, batch, in]. Returns what backward needs: the
  // scaled x A^T, [seq, batch, rank].
  Tensor forward(Context& context, const Tensor& x, const Tensor& y) const;
  // `dy`: the gradient of the GEMM's output. Adds to the weights' gradients and to `dx`; `low`: what forward returned.
  void backward(Context& context, const Tensor& dy, const Tensor& x, const Tensor& low, const Tensor& dx) const;

 private:
  Parameter *a_, *b_;  // [rank, in], [out, rank]
  float scale_;
};

}  // namespace mbench::nn
