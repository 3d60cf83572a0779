#include "engine/model/chunked_loss.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"
#include "engine/ops/softcap.h"

namespace mbench::model {
namespace {

nn::CrossEntropy::Targets rows_of(const nn::CrossEntropy::Targets& words, std::int64_t first, std::int64_t count) {
  nn::CrossEntropy::Targets some = words;
  some.labels = words.labels.slice(first, count);
  if (words.weights) some.weights = words.weights.slice(first, count);
  return some;
}

}  // namespace

std::int64_t ChunkedLoss::rows_of_chunk(std::int64_t rows, std::int64_t hidden, std::int64_t columns) {
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const auto even = static_cast<std::uint64_t>(up(rows, up(columns, hidden)));
  return std::min(rows, static_cast<std::int64_t>(std::bit_ceil(even)));
}

void ChunkedLoss::forward(nn::Context& c, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
                          Saved& saved) const {
  const std::int64_t rows = x.shape().rows(), hidden = x.shape().cols();
  saved.dx = c.activation(x.shape(), "gradient of the head's input");
  if (logits_.trains())
    saved.dweight =
        c.device.empty(logits_.weight_shape(), c.dtype(), Category::activations, "gradient of logits' weight");
  const Tensor all = x.view({rows, 1, hidden}), dall = saved.dx.view({rows, 1, hidden});
  const std::int64_t most = rows_of_chunk(rows, hidden, logits_.weight_shape()[0]);
  const Tensor part = c.device.empty({1}, DType::f32, Category::activations, "loss of a chunk");
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    chunk(c, rows_of(words, first, count), first == 0 ? loss : part, all.slice(first, count), dall.slice(first, count),
          saved.dweight, first == 0);
    if (first > 0) run(c.device, ops::Add{loss, part, loss});
  }
}

void ChunkedLoss::chunk(nn::Context& c, const nn::CrossEntropy::Targets& words, const Tensor& loss, const Tensor& x,
                        const Tensor& dx, const Tensor& dweight, bool first) const {
  Tensor logits = logits_.rows_forward(c, x), uncapped;
  if (scale_ != 1) run(c.device, ops::Scale{logits, logits, scale_});
  if (cap_ != 0) {
    uncapped = std::move(logits);
    logits = c.activation(uncapped.shape(), "capped logits");
    run(c.device, ops::Softcap{uncapped, logits, cap_});
  }
  nn::CrossEntropy::Saved saved;
  loss_.forward(c, std::move(logits), words, loss, saved);
  const Tensor dlogits = loss_.backward(c, words, saved);
  if (cap_ != 0) run(c.device, ops::SoftcapGrad{dlogits, std::exchange(uncapped, Tensor()), dlogits, cap_});
  if (scale_ != 1) run(c.device, ops::Scale{dlogits, dlogits, scale_});
  if (!dweight) return logits_.rows_backward(c, dlogits, x, dx, Tensor(), true);
  // The weight's gradient of a chunk is a tensor of the model's type, made f32 before it is added (fused_linear_cross_entropy.py of
  // Liger-Kernel 0.8: grad_weight += torch.mm(...).float()). Each is as large as the head, and more than a layer's tensors may be.
  Tensor part = c.device.empty(dweight.shape(), dweight.dtype(), Category::activations, "gradient of a chunk's weight");
  logits_.rows_backward(c, dlogits, x, dx, part, true);
  if (part.dtype() != DType::f32) {
    const Tensor wide =
        c.device.empty(part.shape(), DType::f32, Category::activations, "gradient of a chunk's weight in f32");
    run(c.device, ops::Copy{part, wide});
    part = wide;
  }
  if (first)
    run(c.device, ops::Copy{part, dweight});
  else
    run(c.device, ops::Add{dweight, part, dweight});
}

Tensor ChunkedLoss::backward(nn::Context& c, Saved& saved) const {
  if (saved.dweight) logits_.add_gradient(c, std::exchange(saved.dweight, Tensor()));
  return std::exchange(saved.dx, Tensor());
}

}  // namespace mbench::model
