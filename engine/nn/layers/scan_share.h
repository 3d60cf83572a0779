// Context parallelism of a state mixer, by all-to-all as Megatron-Core has it (MambaContextParallel): a rank convolves and scans all positions
// of the sequence for some of the heads. What it scans travels there and the scan's output back; gates, the norm and both projections stay
// where the rank's own positions are. Positions are put into their order before the scan, where ranks have two chunks of the sequence.
//
// Ranks divide the groups of heads, or, where there are more ranks than groups, the heads of each group. Then B and C of a group go to
// several ranks, and their gradients are summed.
#pragma once
#include "engine/nn/runtime/context.h"
#include "engine/point/architecture.h"

namespace mbench::nn {

class ScanShare {
 public:
  // `in`: the shape of what the first projection makes, [rows, batch, groups, width].
  ScanShare(const Context& context, const StateMixerSpec& spec, const Shape& in);

  // Whether this rank scans all heads of its own positions: nothing travels, and the scan reads the projection's output itself.
  bool whole() const { return ranks_ == 1; }
  // Where a group's x, B and C begin in what is scanned, how many columns these are, and how many of them are x.
  std::int64_t first() const { return whole() ? spec_.group_width() : 0; }
  std::int64_t channels() const { return group_width() + 2 * spec_.state_dim; }
  std::int64_t group_width() const { return spec_.group_width() / parts_; }

  // Of the projection's output: the gates; what this rank scans, [seq, batch, its groups, width()].
  Tensor gates(Context& context, const Tensor& in) const;
  Tensor to_heads(Context& context, const Tensor& in) const;
  // The scan's output in the places of `gates`; and its gradient the other way.
  Tensor to_positions(Context& context, const Tensor& y) const;
  Tensor gradient_to_heads(Context& context, const Tensor& dy) const;
  // The gradient of the projection's output.
  Tensor gradient_of_in(Context& context, const Tensor& dgates, const Tensor& dscanned) const;

  // This rank's heads of a weight with a number for each, and its channels of a weight of the convolution. Empty stays empty.
  Tensor heads(const Tensor& weight) const;
  Tensor channels_of(Context& context, const Tensor& weight) const;
  // Where a gradient of these channels is accumulated: in its place, or, where their rows are not together, in zeros that add_channels() adds.
  Tensor gradient_of_channels(Context& context, const Tensor& gradient) const;
  void add_channels(Context& context, const Tensor& part, const Tensor& gradient) const;

 private:
  // A part's columns of what is scanned: x, B and C, a step (and beta) for each head.
  std::int64_t width() const { return channels() + per_head() * heads_of_part(); }
  std::int64_t per_head() const { return spec_.kind == MixerKind::gated_delta ? 2 : 1; }
  std::int64_t heads_of_part() const { return spec_.group() / parts_; }
  std::int64_t part() const { return rank_ % parts_; }
  // Positions in their order, from ranks' chunks one behind the other, or back.
  Tensor ordered(Context& context, const Tensor& x, bool back) const;
  // Columns that each part of a group has for itself, [in the projection's output, in the part's columns, count].
  struct Columns {
    std::int64_t in, part, count;
  };
  std::vector<Columns> own_columns(std::int64_t part) const;

  const StateMixerSpec& spec_;
  std::int64_t rows_, batch_, groups_;
  std::int64_t ranks_, rank_;
  std::int64_t parts_;  // of a group
};

}  // namespace mbench::nn
