// What a linear layer that makes logits does besides: it leaves weights' gradients to the end of a step, or works on some rows at a time.
#include <optional>
#include <utility>

#include "engine/nn/linear/linear.h"
#include "engine/nn/linear/weight_gradient.h"
#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/matmul.h"
#include "engine/ops/run.h"

namespace mbench::nn {

Tensor Linear::backward_deferred(Context& c, const Tensor& dy, Saved& saved, DeferredGemm& later) const {
  check(gemms_->fuses(), "linear", "a GEMM in FP8 whose weight's gradient is deferred");
  if (!table_) c.device.host_work(HostWork::gemm, 2);
  const bool gathered = !saved.gathered.empty();
  later = {this, gathered ? saved.gathered.front() : saved.x, communicate(c, site_.output.backward, dy), gathered};
  saved.forget_input();
  add_bias_gradient(c, bias_of_gemm_ ? later.gradient : dy);
  Shape wide = later.gradient.shape();
  wide[2] = site_.weight->local[1];
  WeightGradient::keep_placeholder(c, site_.rows(site_.weight->gradient).shape());
  const Tensor dx = c.activation(wide, "linear input gradient");
  gemms_->multiply(c, {later.gradient}, gemms_->weight(c, site_, LinearGemms::Side::input_gradient),
                   LinearGemms::Side::input_gradient, dx, {});
  return communicate(c, site_.input.backward, dx);
}

void Linear::make_deferred(Context& c, std::vector<DeferredGemm> gemms) {
  const Exchanges none;
  std::optional<Communication> next;
  const auto start = [&](std::size_t i) {
    if (i >= gemms.size()) return;
    const Exchanges& arriving = gemms[i].gathered ? none : gemms[i].layer->site_.input.forward;
    next.emplace(c, arriving, std::exchange(gemms[i].input, Tensor()));
  };
  start(0);
  for (std::size_t i = 0; i < gemms.size(); ++i) {
    const Linear& layer = *gemms[i].layer;
    const Tensor x = next->finish();
    start(i + 1);
    layer.gemms_->add_weight_gradient(c, layer.site_, {gemms[i].gradient}, {x}, Tensor());
    gemms[i].gradient.reset();
  }
}

Tensor Linear::rows_forward(Context& c, const Tensor& x) const {
  check(!bias_ && gemms_->fuses() && !adapter_ && site_.count == 0, "linear",
        "rows of a layer with more than a weight in 16 or 32 bits");
  const Operand weight = gemms_->weight(c, site_, LinearGemms::Side::outputs);
  const Tensor y = c.activation({x.shape()[0], x.shape()[1], local_outputs()}, "linear output");
  gemms_->multiply(c, {x}, weight, LinearGemms::Side::outputs, y, {});
  return y;
}

void Linear::rows_backward(Context& c, const Tensor& dy, const Tensor& x, const Tensor& dx, const Tensor& dweight,
                           bool first) const {
  gemms_->multiply(c, {dy}, gemms_->weight(c, site_, LinearGemms::Side::input_gradient),
                   LinearGemms::Side::input_gradient, dx, {});
  if (!dweight) return;
  ops::Matmul gemm{ops::Matrix(dy).t(), ops::Matrix(x), ops::Matrix(dweight)};
  gemm.beta = first ? 0.0f : 1.0f;
  run(c.device, gemm);
}

void Linear::add_gradient(Context& c, const Tensor& dweight) const {
  zero_if_stale(c.device, *site_.weight);
  run(c.device, ops::Add{site_.weight->gradient, dweight, site_.weight->gradient});
}

}  // namespace mbench::nn
