#include "engine/nn/state/fp8_parameters.h"

#include <algorithm>

#include "engine/nn/state/frozen_space.h"
#include "engine/nn/state/initial_values.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/fp8_parts.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Parts begin at multiples of it, and dims of FP8 products are multiples of 16: what a part has is a matrix of so many columns.
constexpr std::int64_t kColumns = 64;

Axes owners_of(const Parameter& p) {
  return p.reduce_over & kStateAxes;
}

}  // namespace

void Fp8Parameters::add(Parameter& p, int slot) {
  const Matrices all = matrices_of(p.local);
  p.fp8 = static_cast<int>(matrices_.size());
  for (std::int64_t i = 0; i < all.count; ++i) matrices_.push_back({&p, i, all.rows, all.cols, slot});
}

void Fp8Parameters::allocate_figures(Device& device, const Plan& plan) {
  const bool blocks = recipe_ == Fp8Recipe::blockwise;
  const auto shape_of = [&](const Matrix& m) {
    return blocks ? ops::QuantiseBlocks::scales_of(m.rows, m.cols, ops::Fp8Blocks::squares) : Shape{1};
  };
  std::map<Axes, std::int64_t> at;
  for (const Matrix& m : matrices_) figures_[owners_of(*m.parameter)].count += shape_of(m).numel();
  for (auto& [axes, figures] : figures_) {
    figures.scales = device.empty({figures.count}, DType::f32, Category::weights, "scales of FP8 weights");
    figures.inverses = device.empty({figures.count}, DType::f32, Category::weights, "inverse scales of FP8 weights");
  }
  for (Matrix& m : matrices_) {
    const Figures& figures = figures_[owners_of(*m.parameter)];
    std::int64_t& place = at[owners_of(*m.parameter)];
    m.scale = figures.scales.part(place, shape_of(m));
    m.inverse = figures.inverses.part(place, shape_of(m));
    place += shape_of(m).numel();
  }
}

void Fp8Parameters::allocate(Device& device, const Plan& plan, const StateLayout& layout, const Tensor& main,
                             const Tensor& gradients, ScaleHistory& history) {
  if (empty()) return;
  recipe_ = *plan.precision.fp8;
  sharded_ = plan.state.sharded();
  const bool weights_sharded = plan.state.weights.sharded();
  const std::int64_t all = weights_sharded ? layout.owned() - layout.fp8_at() : layout.size() - layout.fp8_begin();
  if (recipe_ == Fp8Recipe::mxfp8) {
    check(!plan.state.gradients.sharded() && plan.state.gradients_at == Residence::device, "FP8 weights",
          "MXFP8 with gradients that are sharded or on the host, need them whole on the device");
    codes_ = gradients.part(layout.fp8_begin(), {all}).bytes_as(plan.precision.model).part(0, {all});
  } else {
    codes_ = device.empty({all}, DType::e4m3, Category::weights, "weights in FP8");
  }
  if (recipe_ == Fp8Recipe::tensorwise || recipe_ == Fp8Recipe::blockwise) {
    allocate_figures(device, plan);
  } else if (recipe_ == Fp8Recipe::delayed) {
    for (Matrix& m : matrices_) {
      m.scale = history.scale(DType::e4m3, m.slot), m.inverse = history.inverse(DType::e4m3, m.slot);
      m.amax = history.amax(DType::e4m3, m.slot);
    }
  }
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    Matrix& m = matrices_[i];
    const std::int64_t elements = m.rows * m.cols;
    m.begin = m.parameter->offset + m.index * elements;
    for (const StateLayout::Own& own : layout.own()) {
      const std::int64_t from = std::max(own.begin, m.begin), to = std::min(own.end, m.begin + elements), n = to - from;
      if (n <= 0) continue;
      const std::int64_t at = own.at + from - own.begin;
      parts_.push_back({i, from - m.begin, main.part(sharded_ ? at : from, {n}),
                        codes_.part(weights_sharded ? at - layout.fp8_at() : from - layout.fp8_begin(), {n})});
    }
  }
}

void Fp8Parameters::quantise(Device& device, const Groups& groups) {
  if (empty()) return;
  if (in_gradients()) {
    for (const Part& part : parts_) run(device, ops::Copy{part.main, part.codes});
    return;
  }
  const bool blocks = recipe_ == Fp8Recipe::blockwise;
  if (recipe_ != Fp8Recipe::delayed) {
    for (auto& [axes, figures] : figures_) run(device, ops::Fill{figures.scales, 0});
    for (const Part& part : parts_) {
      const Matrix& m = matrices_[part.matrix];
      if (blocks)
        run(device, ops::BlockMaxima{part.main, m.rows, m.cols, part.first, m.scale});
      else
        run(device, ops::AbsMax{part.main, m.scale});
    }
    for (auto& [axes, figures] : figures_) {
      if (sharded_) groups.over(axes).run(comm::AllReduce{figures.scales, comm::ReduceOp::max});
      run(device, ops::Fp8Scale{figures.scales, figures.scales, figures.inverses, DType::e4m3, blocks});
    }
  }
  for (const Part& part : parts_) {
    const Matrix& m = matrices_[part.matrix];
    if (blocks) {
      run(device, ops::QuantisePart{part.main, m.rows, m.cols, part.first, m.scale, part.codes});
      continue;
    }
    const Shape shape{part.main.numel() / kColumns, kColumns};
    run(device, ops::Quantise{part.main.view(shape), m.scale, part.codes.view(shape), Tensor(), m.amax});
  }
}

void Fp8Parameters::initialise_frozen(Device& device, const Plan& plan, const InitialValues& values,
                                      const FrozenSpace& codes, const std::vector<Frozen>& weights) {
  if (empty()) return;
  recipe_ = *plan.precision.fp8 == Fp8Recipe::delayed ? Fp8Recipe::tensorwise : *plan.precision.fp8;
  allocate_figures(device, plan);
  for (auto& [axes, figures] : figures_) run(device, ops::Fill{figures.scales, 0});
  const bool blocks = recipe_ == Fp8Recipe::blockwise;
  // f(matrix, a part of it, its first element there) of the elements of a parameter from `first` on.
  const auto by_matrix = [&](const Parameter& p, const Tensor& values_of, std::int64_t first, auto&& f) {
    const Matrix& one = matrices_[static_cast<std::size_t>(p.fp8)];
    const std::int64_t each = one.rows * one.cols;
    for (std::int64_t at = 0; at < values_of.numel();) {
      const std::int64_t matrix = (first + at) / each, within = (first + at) % each,
                         n = std::min(each - within, values_of.numel() - at);
      f(matrices_[static_cast<std::size_t>(p.fp8 + matrix)], at, n, within);
      at += n;
    }
  };
  const auto everything = [](std::int64_t, std::int64_t) { return true; };
  for (const auto& weight : weights) {
    const Parameter& p = *weight.parameter;
    values.by_blocks(p, everything, [&](const Tensor& block, std::int64_t begin) {
      by_matrix(p, block, begin - p.offset, [&](const Matrix& m, std::int64_t at, std::int64_t n, std::int64_t within) {
        if (blocks)
          run(device, ops::BlockMaxima{block.part(at, {n}), m.rows, m.cols, within, m.scale});
        else
          run(device, ops::AbsMax{block.part(at, {n}), m.scale});
      });
    });
  }
  for (auto& [axes, figures] : figures_)
    run(device, ops::Fp8Scale{figures.scales, figures.scales, figures.inverses, DType::e4m3, blocks});
  for (const auto& weight : weights) {
    const Parameter& p = *weight.parameter;
    const auto here = [&](std::int64_t begin, std::int64_t end) {
      return codes.here(weight.item, begin - p.offset, end - p.offset);
    };
    values.by_blocks(
        p, [&](std::int64_t begin, std::int64_t end) { return static_cast<bool>(here(begin, end).values); },
        [&](const Tensor& block, std::int64_t begin) {
          const FrozenSpace::Here own = here(begin, begin + block.numel());
          by_matrix(p, own.values, begin - p.offset + own.first,
                    [&](const Matrix& m, std::int64_t at, std::int64_t n, std::int64_t within) {
                      const Tensor x = block.part(own.first + at, {n}), to = own.values.part(at, {n});
                      const Shape rows{n / kColumns, kColumns};
                      if (blocks)
                        run(device, ops::QuantisePart{x, m.rows, m.cols, within, m.scale, to});
                      else
                        run(device, ops::Quantise{x.view(rows), m.scale, to.view(rows), Tensor()});
                    });
        });
  }
}

ops::Fp8Operand Fp8Parameters::operand(const Parameter& p, std::int64_t index, const Tensor& codes,
                                       std::int64_t row) const {
  const Matrix& m = matrices_[static_cast<std::size_t>(p.fp8 + index)];
  if (recipe_ != Fp8Recipe::blockwise) return {codes, m.inverse};
  constexpr std::int64_t kBlock = ops::QuantiseBlocks::kBlock;
  check(row % kBlock == 0, "FP8 weight", "rows of {} from {} on, need a multiple of {}", p.name(), row, kBlock);
  return {codes, m.inverse.slice(row / kBlock, ops::QuantiseBlocks::blocks(codes.shape()[0])), ops::Fp8Blocks::squares};
}

}  // namespace mbench::nn
