// Where a GEMM writes the gradient of a weight (Keeps::weight_gradients). It adds to the buffer in which gradients
// accumulate; the graph may then also keep a placeholder. Or it makes a tensor of its own, which is then added.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/nn/state/parameters.h"

namespace mbench::nn {

class WeightGradient {
 public:
  // `buffer`: the rows of the weight's gradient that this GEMM makes, [..., out, in].
  WeightGradient(Context& context, Parameter& weight, const Tensor& buffer);
  // What the GEMM writes, and its beta: 1 adds.
  const Tensor& target() const { return made_ ? made_ : buffer_; }
  float beta() const { return made_ || first_ ? 0.0f : 1.0f; }
  bool separate() const { return static_cast<bool>(made_); }
  // After the GEMM.
  void finish();
  // What autograd is given, of that shape [..., out, in], where gradients are added to their buffer, also where the
  // GEMM comes later. There is one for all weights of a shape, which stays.
  static void keep_placeholder(Context& context, const Shape& shape);

 private:
  Context& context_;
  Tensor buffer_, made_;
  bool first_ = false;  // the first of this step, and for the whole weight
};

}  // namespace mbench::nn
