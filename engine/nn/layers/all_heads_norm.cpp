#include "engine/nn/layers/all_heads_norm.h"

#include "engine/nn/runtime/communicate.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/matrix.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

using Heads = AllHeadsNorm::Heads;

// Of each group its heads: a matrix over tokens.
ops::Matrix in_groups(const Heads& h) {
  const Shape& s = h.data.shape();
  return {h.data, s[0] * s[1], h.columns, s[2] * s[3], h.first, s[3]};
}

// The same side by side, from column `first` on of rows of `width`.
ops::Matrix side_by_side(const Tensor& t, const Heads& h, std::int64_t first) {
  return {t, t.shape().rows(), h.columns, t.shape().cols(), first, h.columns};
}

std::int64_t own_columns(const Heads& h) {
  return h.data.shape()[2] * h.columns;
}

}  // namespace

Tensor AllHeadsNorm::gathered(Context& c, const Heads& h, std::string_view what) const {
  const Shape& s = h.data.shape();
  const Tensor own = c.activation({s[0], s[1], own_columns(h)}, what);
  run(c.device, ops::CopyBlocks{in_groups(h), side_by_side(own, h, 0), s[2]});
  Exchanges gather;
  for (const Axis axis : split_.list())
    if (c.plan.mesh.size(axis) > 1) gather.push_back({axis, Collective::all_gather, 2});
  return communicate_briefly(c, gather, own);
}

void AllHeadsNorm::take_own(Context& c, const Tensor& all, const Heads& h) const {
  const std::int64_t first = c.groups.over(split_).rank() * own_columns(h);
  run(c.device, ops::CopyBlocks{side_by_side(all, h, first), in_groups(h), h.data.shape()[2]});
}

void AllHeadsNorm::forward(Context& c, const Heads& x, const Heads& y, Tensor& rstd) const {
  const Tensor all = gathered(c, x, "columns of all heads");
  const Tensor normed = c.activation(all.shape(), "normed columns of all heads");
  norm_.forward(c, ops::Matrix(all), ops::Matrix(normed), 1, rstd);
  take_own(c, normed, y);
}

void AllHeadsNorm::backward(Context& c, const Heads& dy, const Heads& x, Tensor& rstd) const {
  const Tensor all = gathered(c, x, "columns of all heads"),
               dall = gathered(c, dy, "gradient of normed columns of all heads");
  norm_.backward(c, ops::Matrix(dall), ops::Matrix(all), ops::Matrix(dall), 1, rstd);
  take_own(c, dall, dy);
}

}  // namespace mbench::nn
