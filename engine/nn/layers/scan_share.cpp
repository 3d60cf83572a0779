#include "engine/nn/layers/scan_share.h"

#include <algorithm>

#include "engine/nn/runtime/communicate.h"
#include "engine/ops/add.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/run.h"
#include "engine/ops/sum_blocks.h"

namespace mbench::nn {
namespace {

const Exchanges kToHeads = {{Axis::cp, Collective::all_to_all, 0, 2}},
                kToPositions = {{Axis::cp, Collective::all_to_all, 2, 0}};

// Columns [first, first + count) of all rows of a tensor.
ops::Matrix columns(const Tensor& t, std::int64_t first, std::int64_t count) {
  const std::int64_t width = t.shape().cols();
  return {t, t.shape().rows(), count, width, first};
}

void copy(Context& c, const ops::Matrix& from, const ops::Matrix& to) {
  run(c.device, ops::CopyBlocks{from, to, 1});
}

}  // namespace

ScanShare::ScanShare(const Context& c, const StateMixerSpec& spec, const Shape& in)
    : spec_(spec), rows_(in[0]), batch_(in[1]), groups_(in[2]) {
  const comm::Group& ranks = c.groups.over({Axis::cp});
  ranks_ = ranks.size(), rank_ = ranks.rank();
  parts_ = ranks_ > groups_ ? ranks_ / groups_ : 1;
}

std::vector<ScanShare::Columns> ScanShare::own_columns(std::int64_t part) const {
  const std::int64_t gates = spec_.group_width(), steps = gates + spec_.conv_channels();
  std::vector<Columns> all{{gates + part * group_width(), 0, group_width()}};
  for (std::int64_t i = 0; i < per_head(); ++i)
    all.push_back(
        {steps + i * spec_.group() + part * heads_of_part(), channels() + i * heads_of_part(), heads_of_part()});
  return all;
}

Tensor ScanShare::gates(Context& c, const Tensor& in) const {
  const Tensor gates = c.activation({rows_, batch_, groups_, spec_.group_width()}, "gates");
  copy(c, columns(in, 0, spec_.group_width()), columns(gates, 0, spec_.group_width()));
  return gates;
}

Tensor ScanShare::ordered(Context& c, const Tensor& x, bool back) const {
  const SequenceShare share = c.share();
  if (share.chunks() == 1) return x;
  const std::int64_t row = x.numel() / x.shape()[0], chunk = share.length() * row;
  const Tensor y = c.activation(x.shape(), "positions in another order");
  const auto chunks = [&](const Tensor& t, std::int64_t first, std::int64_t step) {
    return ops::Matrix(t, share.length(), row, row, first * chunk, step * chunk);
  };
  // Chunk i of all ranks: the first ones lie in the order of the ranks, the second ones against it.
  for (const std::int64_t i : {0, 1}) {
    const ops::Matrix by_rank = chunks(back ? y : x, i, 2),
                      in_order = chunks(back ? x : y, i == 0 ? 0 : 2 * ranks_ - 1, i == 0 ? 1 : -1);
    run(c.device, ops::CopyBlocks{back ? in_order : by_rank, back ? by_rank : in_order, ranks_});
  }
  return y;
}

Tensor ScanShare::to_heads(Context& c, const Tensor& in) const {
  const std::int64_t shared = spec_.group_width() * 2, both = 2 * spec_.state_dim;
  Tensor mine = c.activation({rows_, batch_, groups_ * parts_, width()}, "inputs, B, C and steps of all heads");
  const Tensor by_group = mine.view({rows_, batch_, groups_, parts_ * width()});
  if (parts_ == 1) {
    copy(c, columns(in, spec_.group_width(), width()), columns(mine, 0, width()));
  } else {
    for (std::int64_t p = 0; p < parts_; ++p) {
      for (const Columns& own : own_columns(p))
        copy(c, columns(in, own.in, own.count), columns(by_group, p * width() + own.part, own.count));
      copy(c, columns(in, shared, both), columns(by_group, p * width() + group_width(), both));
    }
  }
  Tensor exchanged = communicate(c, kToHeads, mine);
  mine.reset();
  return ordered(c, exchanged, false);
}

Tensor ScanShare::to_positions(Context& c, const Tensor& y) const {
  return communicate(c, kToPositions, ordered(c, y, true)).view({rows_, batch_, groups_, spec_.group_width()});
}

Tensor ScanShare::gradient_to_heads(Context& c, const Tensor& dy) const {
  return ordered(c, communicate(c, kToHeads, dy.view({rows_, batch_, groups_ * parts_, group_width()})), false);
}

Tensor ScanShare::gradient_of_in(Context& c, const Tensor& dgates, const Tensor& dscanned) const {
  const Tensor mine = communicate(c, kToPositions, ordered(c, dscanned, true));
  const Tensor din =
      c.activation({rows_, batch_, groups_, spec_.in_width()}, "gradient of gates, inputs, B, C and steps");
  copy(c, columns(dgates, 0, spec_.group_width()), columns(din, 0, spec_.group_width()));
  if (parts_ == 1) {
    copy(c, columns(mine, 0, width()), columns(din, spec_.group_width(), width()));
    return din;
  }
  const Tensor by_group = mine.view({rows_, batch_, groups_, parts_ * width()});
  for (std::int64_t p = 0; p < parts_; ++p)
    for (const Columns& own : own_columns(p))
      copy(c, columns(by_group, p * width() + own.part, own.count), columns(din, own.in, own.count));
  ops::Matrix each = columns(by_group, group_width(), 2 * spec_.state_dim);
  each.batch_stride = width();
  run(c.device, ops::SumBlocks{each, columns(din, 2 * spec_.group_width(), 2 * spec_.state_dim), parts_});
  return din;
}

Tensor ScanShare::heads(const Tensor& weight) const {
  if (whole() || !weight) return weight;
  const std::int64_t count = weight.shape()[0] / ranks_;
  return weight.slice(rank_ * count, count);
}

Tensor ScanShare::channels_of(Context& c, const Tensor& weight) const {
  if (whole() || !weight) return weight;
  if (parts_ == 1) return heads(weight);
  const std::int64_t group = rank_ / parts_ * spec_.conv_channels(), both = 2 * spec_.state_dim;
  Shape shape = weight.shape();
  shape[0] = channels();
  const Tensor own = c.device.empty(shape, weight.dtype(), Category::workspace, "channels of a rank's heads");
  run(c.device, ops::Copy{weight.slice(group + part() * group_width(), group_width()), own.slice(0, group_width())});
  run(c.device, ops::Copy{weight.slice(group + spec_.group_width(), both), own.slice(group_width(), both)});
  return own;
}

Tensor ScanShare::gradient_of_channels(Context& c, const Tensor& gradient) const {
  if (whole() || !gradient) return gradient;
  if (parts_ == 1) return heads(gradient);
  Shape shape = gradient.shape();
  shape[0] = channels();
  const Tensor own = c.device.empty(shape, gradient.dtype(), Category::workspace, "gradient of a rank's channels");
  run(c.device, ops::Fill{own, 0});
  return own;
}

void ScanShare::add_channels(Context& c, const Tensor& own, const Tensor& gradient) const {
  if (parts_ == 1 || !gradient) return;
  const std::int64_t group = rank_ / parts_ * spec_.conv_channels(), both = 2 * spec_.state_dim;
  const auto add = [&](std::int64_t to, std::int64_t from, std::int64_t count) {
    const Tensor sum = gradient.slice(to, count);
    run(c.device, ops::Add{sum, own.slice(from, count), sum});
  };
  add(group + part() * group_width(), 0, group_width());
  add(group + spec_.group_width(), group_width(), both);
}

}  // namespace mbench::nn
