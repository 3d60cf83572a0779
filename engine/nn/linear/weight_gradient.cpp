#include "engine/nn/linear/weight_gradient.h"

#include "engine/ops/add.h"
#include "engine/ops/run.h"

namespace mbench::nn {

WeightGradient::WeightGradient(Context& c, Parameter& weight, const Tensor& buffer) : context_(c), buffer_(buffer) {
  first_ =
      weight.stale && buffer.numel() == weight.gradient.numel() && c.weight_gradients() == WeightGradients::in_buffer;
  if (first_)
    weight.stale = false;
  else
    zero_if_stale(c.device, weight);
  if (c.weight_gradients() == WeightGradients::apart)
    made_ = c.device.empty(buffer.shape(), c.dtype(), Category::gradients, "gradient of a weight");
  else
    keep_placeholder(c, buffer.shape());
}

void WeightGradient::keep_placeholder(Context& c, const Shape& s) {
  if (c.weight_gradients() != WeightGradients::placeholder) return;
  const Shape one = {s[s.rank() - 2], s[s.rank() - 1]};  // of one expert, where there are several
  Tensor& kept = c.placeholders[{one[0], one[1]}];
  if (!kept) kept = c.device.empty(one, c.dtype(), Category::gradients, "placeholder of weights' gradients");
}

void WeightGradient::finish() {
  if (!made_) return;
  run(context_.device, ops::Add{buffer_, made_, buffer_});
  made_.reset();
}

}  // namespace mbench::nn
