#include "engine/nn/state/nf4_weights.h"

#include <algorithm>

#include "engine/nn/runtime/context.h"
#include "engine/nn/state/initial_values.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/copy_blocks.h"
#include "engine/ops/nf4.h"
#include "engine/ops/run.h"

namespace mbench::nn {
namespace {

// Where a rank's part of a dim begins; of two axes that cut it the outer one cuts first.
std::int64_t first_of(const Parameter& p, const Plan& plan, const Groups& groups, int dim) {
  std::int64_t first = 0, extent = p.spec.shape[dim];
  for (int i = kAxes; i-- > 0;) {
    const Axis axis = static_cast<Axis>(i);
    if (!p.placement[axis].sharded(dim)) continue;
    extent /= plan.mesh.size(axis);
    first += extent * groups.coordinate(axis);
  }
  return first;
}

constexpr auto kEverything = [](std::int64_t, std::int64_t) { return true; };

}  // namespace

std::int64_t Nf4Weights::Weight::scales_of_each() const {
  return rows * cols / ops::kNf4Block;
}
std::int64_t Nf4Weights::Weight::all_scales_of_each() const {
  return all_rows * all_cols / ops::kNf4Block;
}

void Nf4Weights::add(Parameter& p) {
  check(p.local.cols() % ops::kNf4Block == 0, "weights in 4 bits", "{} of {}, need rows of a multiple of {}", p.name(),
        p.local, ops::kNf4Block);
  const int inner = p.local.rank() - 2;  // the dim of rows; before it that of experts
  const std::int64_t matrices = inner == 0 ? 1 : p.local[0];
  p.nf4 = static_cast<int>(weights_.size());
  weights_.push_back({&p, codes_.add(ops::nf4_bytes(p.local.numel()), p.reduce_over & kDataAxes, p.unit), matrices,
                      p.local[inner], p.local[inner + 1], p.spec.shape[inner], p.spec.shape[inner + 1],
                      first_of(p, plan_, groups_, inner), first_of(p, plan_, groups_, inner + 1)});
}

// Of each kind of scales one flat tensor, whose parts begin at multiples of 16 bytes.
void Nf4Weights::allocate() {
  const auto cut = [&](DType type, std::string_view what, auto&& count_of, Tensor Weight::*keep) {
    const auto aligned = static_cast<std::int64_t>(16 / size_of(type));
    const auto room = [&](const Weight& w) { return (count_of(w) + aligned - 1) / aligned * aligned; };
    std::int64_t all = 0, at = 0;
    for (const Weight& w : weights_) all += room(w);
    const Tensor flat = device_.empty({all}, type, Category::weights, what);
    for (Weight& w : weights_) {
      w.*keep = flat.part(at, {count_of(w)});
      at += room(w);
    }
  };
  const auto scales = [](const Weight& w) { return w.matrices * w.scales_of_each(); };
  if (!twice()) return cut(DType::f32, "scales of weights in 4 bits", scales, &Weight::scales);
  cut(DType::u8, "scales of weights in 4 bits", scales, &Weight::codes_of_scales);
  cut(
      DType::f32, "scales of scales",
      [](const Weight& w) { return w.matrices * ops::scales_blocks(w.all_scales_of_each()); }, &Weight::most);
  cut(
      DType::f32, "means of scales", [](const Weight& w) { return w.matrices; }, &Weight::mean);
}

void Nf4Weights::allocate_and_initialise(int units, const InitialValues& values) {
  if (empty()) return;
  codes_.allocate(units, DType::u8, "weights in 4 bits");
  allocate();
  for (const Weight& w : weights_) {
    const Tensor scales = w.scales ? w.scales
                                   : device_.empty({w.matrices * w.scales_of_each()}, DType::f32, Category::workspace,
                                                   "scales to be quantised");
    quantise(w, scales, values);
    if (!w.scales) quantise_scales(w, scales, values);
  }
}

Tensor Nf4Weights::rounded(const Tensor& block) const {
  if (plan_.precision.model == DType::f32) return block;
  const Tensor made =
      device_.empty(block.shape(), plan_.precision.model, Category::workspace, "initial values in 16 bits");
  run(device_, ops::Copy{block, made});
  return made;
}

// All scales, and of the codes those that are here.
void Nf4Weights::quantise(const Weight& w, const Tensor& scales, const InitialValues& values) const {
  values.by_blocks(*w.parameter, kEverything, [&](const Tensor& block, std::int64_t begin) {
    const Tensor x = rounded(block);
    const std::int64_t first = begin - w.parameter->offset, n = block.numel(), bytes = ops::nf4_bytes(n);
    const Tensor own_scales = scales.part(first / ops::kNf4Block, {ops::nf4_blocks(n)});
    const FrozenSpace::Here here = codes_.here(w.codes, first / 2, first / 2 + bytes);
    if (here.values && here.values.numel() == bytes) return run(device_, ops::QuantiseNf4{x, here.values, own_scales});
    const Tensor codes = device_.empty({bytes}, DType::u8, Category::workspace, "codes of initial values");
    run(device_, ops::QuantiseNf4{x, codes, own_scales});
    if (!here.values) return;
    const std::int64_t count = here.values.numel();
    run(device_, ops::CopyBlocks{ops::Matrix(codes.part(here.first, {count}), 1, count, count),
                                 ops::Matrix(here.values, 1, count, count)});
  });
}

// A matrix that is cut has its scales quantised as a whole one has: those of all of it are made here, and a part of their codes is kept.
void Nf4Weights::quantise_scales(const Weight& w, const Tensor& scales, const InitialValues& values) const {
  const std::int64_t each = w.scales_of_each(), all = w.all_scales_of_each(), most = ops::scales_blocks(all);
  Tensor whole = scales;
  if (w.cut()) {
    Parameter uncut = *w.parameter;
    const int inner = uncut.local.rank() - 2;
    for (int i = 0; i < kAxes; ++i)
      if (const auto axis = static_cast<Axis>(i);
          uncut.placement[axis].sharded(inner) || uncut.placement[axis].sharded(inner + 1))
        uncut.placement.set(axis, replicate);
    uncut.local[inner] = w.all_rows, uncut.local[inner + 1] = w.all_cols;
    whole = device_.empty({w.matrices * all}, DType::f32, Category::workspace, "scales of whole weights");
    values.by_blocks(uncut, kEverything, [&](const Tensor& block, std::int64_t begin) {
      const std::int64_t n = block.numel();
      const Tensor codes =
          device_.empty({ops::nf4_bytes(n)}, DType::u8, Category::workspace, "codes of initial values");
      run(device_, ops::QuantiseNf4{rounded(block), codes,
                                    whole.part((begin - uncut.offset) / ops::kNf4Block, {ops::nf4_blocks(n)})});
    });
  }
  for (std::int64_t m = 0; m < w.matrices; ++m) {
    const Tensor own = w.codes_of_scales.part(m * each, {each});
    const Tensor codes =
        w.cut() ? device_.empty({all}, DType::u8, Category::workspace, "codes of scales of a whole weight") : own;
    run(device_,
        ops::QuantiseScales{whole.part(m * all, {all}), codes, w.most.part(m * most, {most}), w.mean.part(m, {1})});
    if (!w.cut()) continue;
    const std::int64_t width = w.cols / ops::kNf4Block, stride = w.all_cols / ops::kNf4Block;
    run(device_, ops::CopyBlocks{
                     ops::Matrix(codes, w.rows, width, stride, w.first_row * stride + w.first_col / ops::kNf4Block, 0),
                     ops::Matrix(own, w.rows, width, width, 0, 0)});
  }
}

Tensor Nf4Weights::scales_of(const Weight& w, std::int64_t first, std::int64_t count) const {
  const std::int64_t each = w.scales_of_each(), most = ops::scales_blocks(w.all_scales_of_each());
  if (w.scales) return w.scales.part(first * each, {count * each});
  const Tensor scales = device_.empty({count * each}, DType::f32, Category::weights, "scales of a weight in 4 bits");
  for (std::int64_t m = first; m < first + count; ++m) {
    ops::DequantiseScales op{w.codes_of_scales.part(m * each, {each}), w.most.part(m * most, {most}),
                             w.mean.part(m, {1}), scales.part((m - first) * each, {each})};
    if (w.cut()) {
      op.row = w.cols / ops::kNf4Block, op.stride = w.all_cols / ops::kNf4Block;
      op.first = w.first_row * op.stride + w.first_col / ops::kNf4Block;
    }
    run(device_, op);
  }
  return scales;
}

Tensor Nf4Weights::dequantised(Context& c, const Parameter& p, std::optional<std::int64_t> expert) const {
  const Weight& w = weights_[static_cast<std::size_t>(p.nf4)];
  const std::int64_t first = expert.value_or(0), count = expert ? 1 : w.matrices;
  const Tensor scales = scales_of(w, first, count);
  const std::int64_t bytes = ops::nf4_bytes(w.rows * w.cols);
  Shape shape = p.local;
  if (expert) shape[0] = 1;
  const Tensor weight = c.device.empty(shape, plan_.precision.model, Category::weights, "dequantised weight");
  const Tensor codes = codes_.of(w.codes, {w.matrices * bytes});
  run(c.device, ops::DequantiseNf4{codes.part(first * bytes, {count * bytes}), scales, weight});
  return weight;
}

}  // namespace mbench::nn
