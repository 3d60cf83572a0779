#include "engine/nn/layers/cross_entropy.h"

#include <algorithm>

#include "engine/nn/runtime/replicas.h"
#include "engine/ops/copy.h"
#include "engine/ops/cross_entropy.h"
#include "engine/ops/run.h"
#include "engine/plan/framework.h"

namespace mbench::nn {

CrossEntropy::CrossEntropy(std::int64_t columns, const Spread& logits, const Mesh& mesh) : columns_(columns) {
  for (int i = 0; i < kAxes; ++i)
    if (const Axis axis = static_cast<Axis>(i); logits[axis].sharded(2)) split_.add(axis);
  split_ = mesh.real(split_);
  check(split_.list().size() <= 1, "cross entropy", "columns are split over {}, need one axis", str(split_));
}

std::int64_t CrossEntropy::first_column(const Context& c, std::int64_t n) const {
  return split_.empty() ? 0 : c.groups.over(split_).rank() * n;
}

void CrossEntropy::forward(Context& c, Tensor logits, const Targets& t, const Tensor& loss, Saved& saved) const {
  if (!is_replicated(c)) return compute(c, std::move(logits), t, loss, saved);
  saved.own = logits.shape();
  const Tensor all = gather_to_first(c, logits, Category::activations, "logits of all replicas");
  logits.reset();
  if (!all) return run(c.device, ops::Fill{loss, 0});
  const std::int64_t n = saved.own.cols();
  compute(c, all.view({all.numel() / n, n}), t, loss, saved);
}

Tensor CrossEntropy::backward(Context& c, const Targets& t, Saved& saved) const {
  if (!is_replicated(c)) return compute_gradient(c, t, saved);
  const Tensor own = c.activation(saved.own, "logits gradient of a replica");
  scatter_from_first(c, is_first_replica(c) ? compute_gradient(c, t, saved) : Tensor(), own);
  saved = {};
  return own;
}

void CrossEntropy::compute(Context& c, Tensor logits, const Targets& t, const Tensor& loss, Saved& saved) const {
  // Not what a loss overwrites: that is no longer the model's output.
  if (c.plan.framework->holds_logits && c.keeps().logits_gradient >= LogitsGradient::exponentials_apart && !saved.held)
    saved.held = logits;
  const std::int64_t rows = logits.shape().rows(), n = logits.shape().cols();
  const std::int64_t first = first_column(c, n);
  const std::int64_t valid = std::clamp<std::int64_t>(columns_ - first, 0, n);
  const auto row_values = [&](const char* what) {
    return c.device.empty({rows}, DType::f32, Category::activations, what);
  };
  const LogitsGradient style = c.keeps().logits_gradient;
  const bool in_16_bits = style == LogitsGradient::gradients_in_16_bits,
             of_logits = in_16_bits || style == LogitsGradient::gradient_apart,
             keep_exp = style != LogitsGradient::in_place && !of_logits;
  if (keep_exp && logits.dtype() != DType::f32) {
    const Tensor copy = c.device.empty(logits.shape(), DType::f32, Category::activations, "logits in f32");
    run(c.device, ops::Copy{logits, copy});
    // The 16-bit logits live on until the loss is known, as the caller's output does in Megatron.
    compute(c, copy, t, loss, saved);
    return;
  }
  const Tensor max = row_values("row maxima"), target = row_values("target logits");
  saved.sum = row_values("sums of exponentials");
  // A GPU reads the logits once for both. Elsewhere they are two ops: a CPU gains nothing by one, and simulated steps are held to
  // published ones with two.
  const bool on_gpu = c.device.real() && !c.device.immediate();
  if (on_gpu && split_.empty() && !keep_exp) {
    run(c.device, ops::MaxExpSum{logits, t.labels, valid, max, saved.sum, target});
  } else {
    run(c.device, ops::RowMax{logits, max, valid});
    comm::Group& others = c.groups.over(split_);
    others.run(comm::AllReduce{max, comm::ReduceOp::max});
    if (keep_exp)
      saved.exp = style == LogitsGradient::exponentials_in_copy
                      ? logits
                      : c.device.empty(logits.shape(), DType::f32, Category::activations, "exponentials");
    run(c.device, ops::ExpSum{logits, max, t.labels, first, valid, saved.sum, target, saved.exp});
    others.run(comm::AllReduce{target});
    others.run(comm::AllReduce{saved.sum});
  }
  run(c.device, ops::CrossEntropyLoss{saved.sum, target, t.weights, t.inv_weight_sum, loss, t.loss_factor()});
  if (keep_exp) return;
  if (in_16_bits) {
    // Its logarithms are made of what is in memory; here they stand for what PyTorch keeps, and the gradient comes from the logits.
    saved.log_probabilities = c.activation(logits.shape(), "log-probabilities");
    run(c.device, ops::Copy{logits, saved.log_probabilities});
  }
  if (of_logits) {
    saved.logits = logits, saved.max = max;
    return;
  }
  run(c.device, ops::CrossEntropyGrad{logits, Tensor(), max, saved.sum, t.labels, t.weights,
                                      t.gradient_scale * t.inv_weight_sum, first, valid, logits, t.gradient_factor()});
  saved.sum.reset();
  saved.dlogits = logits;
}

Tensor CrossEntropy::gradient_of_logits(Context& c, const Targets& t, Saved& saved) const {
  const std::int64_t n = saved.logits.shape().cols(), first = first_column(c, n);
  Tensor of_loss;
  if (saved.log_probabilities) {
    // What autograd makes and fills on its way from the loss; the op below takes its one value a row from the targets.
    of_loss = c.activation(saved.logits.shape(), "gradient of log-probabilities");
    run(c.device, ops::Fill{of_loss, 0});
  }
  const Tensor gradient = c.activation(saved.logits.shape(), "logits gradient");
  run(c.device, ops::CrossEntropyGrad{saved.logits, Tensor(), saved.max, saved.sum, t.labels, t.weights,
                                      t.gradient_scale * t.inv_weight_sum, first,
                                      std::clamp<std::int64_t>(columns_ - first, 0, n), gradient, t.gradient_factor()});
  saved = {};
  return gradient;
}

Tensor CrossEntropy::compute_gradient(Context& c, const Targets& t, Saved& saved) const {
  if (saved.dlogits) return std::exchange(saved.dlogits, Tensor());
  if (saved.logits) return gradient_of_logits(c, t, saved);
  const std::int64_t n = saved.exp.shape().cols(), first = first_column(c, n);
  const std::int64_t valid = std::clamp<std::int64_t>(columns_ - first, 0, n);
  Tensor gradient = saved.exp, of_loss, exp_again;
  if (c.keeps().logits_gradient == LogitsGradient::gradients_apart) {
    const auto f32_logits = [&](const char* what) {
      return c.device.empty(saved.exp.shape(), DType::f32, Category::activations, what);
    };
    // What autograd makes and fills on its way from the loss; the op below takes its one value a row from the targets.
    of_loss = f32_logits("gradient of log-probabilities");
    run(c.device, ops::Fill{of_loss, 0});
    // Of split columns PyTorch keeps the logarithms alone and takes their exponentials again (DTensor's loss_parallel).
    if (!split_.empty()) {
      exp_again = f32_logits("exponentials again");
      run(c.device, ops::Copy{saved.exp, exp_again});
    }
    gradient = f32_logits("logits gradient in f32");
  }
  run(c.device,
      ops::CrossEntropyGrad{Tensor(), saved.exp, Tensor(), saved.sum, t.labels, t.weights,
                            t.gradient_scale * t.inv_weight_sum, first, valid, gradient, t.gradient_factor()});
  of_loss.reset(), exp_again.reset();
  saved = {};
  if (c.dtype() == DType::f32) return gradient;
  const Tensor dlogits = c.activation(gradient.shape(), "logits gradient");
  run(c.device, ops::Copy{gradient, dlogits});
  return dlogits;
}

}  // namespace mbench::nn
