// Where a product makes the gradient of a weight (Keeps::weight_gradients): it adds to the buffer in which gradients
// accumulate, beside which the graph may keep a placeholder, or it makes a tensor of its own, which is then added.
#pragma once
#include "engine/nn/context.h"
#include "engine/nn/parameters.h"

namespace mbench {

class WeightGradient {
 public:
  // `buffer`: the rows of the weight's gradient that this product makes, [..., out, in].
  WeightGradient(Context& context, Parameter& weight, const Tensor& buffer);
  // What the product writes, and what it multiplies that with before: 1 adds.
  const Tensor& target() const { return made_ ? made_ : buffer_; }
  float beta() const { return made_ || first_ ? 0.0f : 1.0f; }
  bool separate() const { return static_cast<bool>(made_); }
  // After the product.
  void finish();
  // What autograd is given of that shape [..., out, in] where gradients are added to their buffer, also where the product comes
  // later: one for all weights of a shape, which stays.
  static void keep_placeholder(Context& context, const Shape& shape);

 private:
  Context& context_;
  Tensor buffer_, made_;
  bool first_ = false;  // of this step, and of all of the weight
};

}  // namespace mbench
