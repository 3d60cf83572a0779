#include "engine/nn/weight_gradient.h"

#include "engine/ops/add.h"
#include "engine/ops/run.h"

namespace mbench {

WeightGradient::WeightGradient(Context& c, Parameter& weight, const Tensor& buffer, bool of_table)
    : context_(c), buffer_(buffer) {
  first_ = weight.stale && buffer.numel() == weight.gradient.numel() &&
           c.graph().weight_gradients == WeightGradients::in_buffer;
  if (first_)
    weight.stale = false;
  else
    zero_if_stale(c.device, weight);
  const auto make = [&](const Shape& shape, std::string_view what) {
    return c.device.empty(shape, c.dtype(), Category::gradients, what);
  };
  switch (c.graph().weight_gradients) {
    case WeightGradients::in_buffer:
      return;
    case WeightGradients::apart:
      made_ = make(buffer.shape(), "gradient of a weight");
      return;
    case WeightGradients::placeholder:
      if (of_table) {
        placeholder_ = make(buffer.shape(), "placeholder of a table's gradient");
        return;
      }
      const Shape& s = buffer.shape();  // of one expert, where there are several
      Tensor& kept = c.placeholders[{s[s.rank() - 2], s[s.rank() - 1]}];
      if (!kept) kept = make({s[s.rank() - 2], s[s.rank() - 1]}, "placeholder of weights' gradients");
      return;
  }
}

void WeightGradient::finish() {
  placeholder_.reset();
  if (!made_) return;
  run(context_.device, ops::Add{buffer_, made_, buffer_});
  made_.reset();
}

}  // namespace mbench
