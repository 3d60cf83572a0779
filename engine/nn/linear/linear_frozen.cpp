// A linear layer in FP8 whose weight is frozen: nothing is made or kept for the weight's gradient. Its adapter computes in 16 bits, as
// Megatron-Bridge's does, so that an input which is gathered travels in 16 bits where there is one.
#include <utility>

#include "engine/nn/linear/linear.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/matrix.h"

namespace mbench {
namespace {

// [seq, batch, width] as rows of tokens.
Tensor as_rows(const Tensor& t) {
  return t.view({t.shape().rows(), t.shape().cols()});
}

}  // namespace

Tensor Linear::forward_frozen_in_fp8(Context& c, const Tensor& x, Saved& saved) const {
  const Tensor w = rows(weight_->value);
  Tensor whole;
  ops::Fp8Operand in;
  if (adapter_) {
    whole = communicate_briefly(c, input_.forward, x);
    in = fp8_->input(c, as_rows(whole), Fp8Ways::straight).straight;
    saved.x = x;
  } else {
    Saved dropped;  // that a frozen weight's gradient would need
    in = arrive_in_fp8(c, x, input_.forward.empty(), dropped);
  }
  const std::int64_t batch = x.shape()[1];
  const Tensor y = c.activation({in.codes.shape()[0] / batch, batch, w.shape()[0]}, "linear output");
  Fp8Gemms::multiply(c, std::exchange(in, {}), fp8_->weight(c, w, Fp8Ways::straight, 0, begin_).straight, as_rows(y));
  if (adapter_) saved.low = adapter_->forward(c, whole, y);
  return communicate(c, output_.forward, y);
}

Tensor Linear::backward_frozen_in_fp8(Context& c, const Tensor& dy, Saved& saved) const {
  const Tensor dproduct = communicate(c, output_.backward, dy), w = rows(weight_->value);
  // The input travels while its gradient is computed.
  std::optional<Communication> input;
  if (adapter_) input.emplace(c, input_.forward, saved.x, Communication::Use::brief);
  const Shape& s = dproduct.shape();
  const Tensor dx = c.activation({s[0], s[1], w.shape()[1]}, "linear input gradient");
  Fp8Gemms::multiply(c, fp8_->gradient(c, as_rows(dproduct), Fp8Ways::straight).straight,
                     fp8_->weight(c, w, Fp8Ways::transposed, 0, begin_).transposed, as_rows(dx));
  if (adapter_) adapter_->backward(c, dproduct, input->finish(), std::exchange(saved.low, Tensor()), dx);
  saved = {};
  return communicate(c, input_.backward, dx);
}

}  // namespace mbench
