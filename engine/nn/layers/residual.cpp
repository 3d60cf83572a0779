#include "engine/nn/layers/residual.h"

#include "engine/ops/arguments.h"
#include "engine/ops/bias_dropout_add.h"
#include "engine/ops/dropout.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"

namespace mbench::nn {

ops::HiddenMap hidden_map(const Context& c, const MicroBatch& batch) {
  const SequenceShare share = c.share();
  const std::int64_t first = c.first_row(), last = first + c.local_seq() - 1;
  ops::HiddenMap map{c.training().seq, share.position(first), batch.sample0};
  if (first / share.length() == last / share.length()) return map;
  map.turn = share.length() - first;
  map.seq1 = share.position(share.length());
  return map;
}

Tensor ResidualDropout::forward(Context& c, const MicroBatch& batch, const Tensor& branch, const Tensor& bias,
                                const Tensor& residual, Saved& saved) const {
  const float p = c.dropout();
  if (p > 0 && c.keeps().stored_masks)
    saved.mask = c.device.empty(branch.shape(), DType::u8, Category::activations, "residual dropout mask");
  const Tensor y = c.activation(branch.shape(), "residual sum");
  run(c.device,
      ops::BiasDropoutAdd{branch, bias, residual, y, saved.mask, dropout_at(c, site_), hidden_map(c, batch), scale_});
  return y;
}

Tensor ResidualDropout::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  const float p = c.dropout();
  if (p == 0 && scale_ == 1) return dy;
  const Tensor dbranch = c.activation(dy.shape(), "branch gradient");
  if (scale_ != 1) run(c.device, ops::Scale{dy, dbranch, scale_});
  if (p == 0) return dbranch;
  run(c.device,
      ops::DropoutGrad{scale_ != 1 ? dbranch : dy, dbranch, saved.mask, dropout_at(c, site_), hidden_map(c, batch)});
  saved = {};
  return dbranch;
}

}  // namespace mbench::nn
