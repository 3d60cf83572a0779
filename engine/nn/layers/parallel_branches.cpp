#include "engine/nn/layers/parallel_branches.h"

#include <utility>

#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"
#include "engine/ops/scale.h"

namespace mbench::nn {
namespace {

// Columns [i * width, (i + 1) * width) of a tensor.
ops::Matrix part_of(const Tensor& t, std::size_t i, std::int64_t width) {
  return {t, t.shape().rows(), width, t.shape().cols(), static_cast<std::int64_t>(i) * width};
}

Tensor side_by_side(Context& c, const std::vector<Tensor>& all, std::string_view what) {
  Shape shape = all.front().shape();
  const std::int64_t width = shape[2];
  shape[2] *= static_cast<std::int64_t>(all.size());
  const Tensor together = c.activation(shape, what);
  for (std::size_t i = 0; i < all.size(); ++i)
    run(c.device, ops::CopyBlocks{ops::Matrix(all[i]), part_of(together, i, width)});
  return together;
}

std::vector<Tensor> apart(Context& c, const Tensor& together, std::size_t count, std::string_view what) {
  Shape shape = together.shape();
  shape[2] /= static_cast<std::int64_t>(count);
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(c.activation(shape, what));
    run(c.device, ops::CopyBlocks{part_of(together, i, shape[2]), ops::Matrix(all.back())});
  }
  return all;
}

}  // namespace

ParallelBranches::ParallelBranches(ParameterStore& store, const Plan& plan, const LayerSpec& spec, Regions drop)
    : inside_(plan_inside(plan)),
      outside_(plan),
      residual_(spec.branches.front().name + ".residual.dropout", spec.residual_scale),
      norm_checkpoint_(drop.has(Region::norm)) {
  // The mixers' inputs are dropped after forward and brought again.
  Regions inside = drop;
  inside.add(Region::norm);
  for (std::size_t i = 0; i < spec.parallel; ++i) {
    const BranchSpec& branch = spec.branches[i];
    if (branch.norm) norms_.emplace_back(store, plan, *branch.norm);
    parts_.push_back({norms_.size() - 1, make_mixer(store, *inside_, branch, inside),
                      Checkpoint(drops_mixer(branch, drop)), branch.factor});
  }
}

std::vector<Tensor> ParallelBranches::arrive(Context& c, const std::vector<Tensor>& normed) const {
  if (outside_.gather.forward.empty()) return normed;
  if (normed.size() == 1) return {communicate_briefly(c, outside_.gather.forward, normed.front())};
  const Tensor together =
      communicate_briefly(c, outside_.gather.forward, side_by_side(c, normed, "outputs of norms, side by side"));
  return apart(c, together, normed.size(), "gathered output of a norm");
}

std::vector<Tensor> ParallelBranches::leave(Context& c, std::vector<Tensor> gradients) const {
  if (outside_.gather.backward.empty()) return gradients;
  if (gradients.size() == 1) return {communicate(c, outside_.gather.backward, gradients.front())};
  Tensor together = side_by_side(c, gradients, "gradients of norms' outputs, side by side");
  const std::size_t count = gradients.size();
  gradients.clear();
  together = communicate(c, outside_.gather.backward, together);
  return apart(c, together, count, "gradient of a norm's output");
}

Tensor ParallelBranches::bias(Context& c) const {
  Tensor sum;
  for (const Part& part : parts_) {
    const Tensor bias = part.mixer->bias();
    if (!bias) continue;
    if (!sum) {
      sum = bias;
      continue;
    }
    const Tensor both = c.activation(bias.shape(), "sum of biases");
    run(c.device, ops::Add{sum, bias, both});
    sum = both;
  }
  return sum;
}

Tensor ParallelBranches::of_part(Context& c, const Part& part, const Tensor& dsum) {
  if (part.factor == 1) return dsum;
  const Tensor d = c.activation(dsum.shape(), "gradient of a branch times its factor");
  run(c.device, ops::Scale{dsum, d, part.factor});
  return d;
}

Tensor ParallelBranches::forward(Context& c, const MicroBatch& batch, const Tensor& x, Saved& saved) const {
  saved.norms.resize(norms_.size());
  saved.mixers.resize(parts_.size());
  for (std::size_t i = 0; i < norms_.size(); ++i) saved.normed.push_back(norms_[i].forward(c, x, saved.norms[i]));
  Tensor sum;
  {
    const std::vector<Tensor> arrived = arrive(c, saved.normed);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const Tensor y = part.mixer->forward(c, batch, arrived[part.norm], saved.mixers[i]);
      if (!part.checkpoint.drop(saved.mixers[i]))
        for (Tensor* input : saved.mixers[i]->inputs()) input->reset();
      if (part.factor != 1) run(c.device, ops::Scale{y, y, part.factor});
      if (sum)
        run(c.device, ops::Add{sum, y, sum});
      else
        sum = y;
    }
  }
  norm_checkpoint_.drop(saved.normed);
  sum = communicate(c, outside_.reduce.forward, sum);
  return residual_.forward(c, batch, sum, bias(c), x, saved.residual);
}

Tensor ParallelBranches::backward(Context& c, const MicroBatch& batch, const Tensor& dy, Saved& saved) const {
  std::vector<Tensor> gradients(norms_.size());
  {
    const Tensor dsum = communicate(c, outside_.reduce.backward, residual_.backward(c, batch, dy, saved.residual));
    norm_checkpoint_.restore(c, [&] {
      for (std::size_t i = 0; i < norms_.size(); ++i) {
        Norm::Saved again;
        saved.normed.push_back(norms_[i].forward(c, saved.norms[i].x, again));
      }
    });
    const std::vector<Tensor> arrived = arrive(c, saved.normed);
    saved.normed.clear();
    for (std::size_t i = parts_.size(); i-- > 0;) {
      const Part& part = parts_[i];
      if (part.checkpoint.dropped())
        part.checkpoint.restore(c, [&] { part.mixer->forward(c, batch, arrived[part.norm], saved.mixers[i]); });
      else
        for (Tensor* input : saved.mixers[i]->inputs()) *input = arrived[part.norm];
      const Tensor dx = part.mixer->backward(c, batch, of_part(c, part, dsum), saved.mixers[i]);
      saved.mixers[i].reset();
      Tensor& gradient = gradients[part.norm];
      if (gradient)
        run(c.device, ops::Add{gradient, dx, gradient});
      else
        gradient = dx;
    }
  }
  gradients = leave(c, std::move(gradients));
  Tensor dx = dy;
  for (std::size_t i = norms_.size(); i-- > 0;) {
    dx = norms_[i].backward(c, gradients[i], dx, saved.norms[i]);
    gradients[i].reset();
  }
  saved = {};
  return dx;
}

}  // namespace mbench::nn
