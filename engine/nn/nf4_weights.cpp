#include "engine/nn/nf4_weights.h"

#include "engine/nn/context.h"
#include "engine/nn/initial_values.h"
#include "engine/nn/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/nf4.h"
#include "engine/ops/run.h"

namespace mbench {

void Nf4Weights::add(Parameter& p) {
  check(p.local.cols() % ops::kNf4Block == 0, "weights in 4 bits", "{} of {}, need rows of a multiple of {}", p.name(),
        p.local, ops::kNf4Block);
  p.nf4 = static_cast<int>(weights_.size());
  weights_.push_back({&p, Tensor(), Tensor()});
}

// Of each kind one flat tensor, whose parts begin at multiples of 16 bytes.
void Nf4Weights::allocate(Device& device) {
  const bool twice = base_ == FrozenBase::nf4_double;
  const auto cut = [&](DType type, std::string_view what, auto&& count_of, auto&& keep) {
    const auto aligned = static_cast<std::int64_t>(16 / size_of(type));
    const auto room = [&](const Weight& w) { return (count_of(w) + aligned - 1) / aligned * aligned; };
    std::int64_t all = 0, at = 0;
    for (const Weight& w : weights_) all += room(w);
    const Tensor flat = device.empty({all}, type, Category::weights, what);
    for (Weight& w : weights_) {
      keep(w) = flat.part(at, {count_of(w)});
      at += room(w);
    }
  };
  const auto elements = [](const Weight& w) { return w.parameter->local.numel(); };
  const auto blocks = [&](const Weight& w) { return ops::nf4_blocks(elements(w)); };
  cut(
      DType::u8, "weights in 4 bits", [&](const Weight& w) { return ops::nf4_bytes(elements(w)); },
      [](Weight& w) -> Tensor& { return w.codes; });
  if (!twice)
    return cut(DType::f32, "scales of weights in 4 bits", blocks, [](Weight& w) -> Tensor& { return w.scales; });
  cut(DType::u8, "scales of weights in 4 bits", blocks, [](Weight& w) -> Tensor& { return w.codes_of_scales; });
  cut(
      DType::f32, "scales of scales", [&](const Weight& w) { return ops::scales_blocks(blocks(w)); },
      [](Weight& w) -> Tensor& { return w.most; });
  cut(
      DType::f32, "means of scales", [](const Weight&) { return std::int64_t{1}; },
      [](Weight& w) -> Tensor& { return w.mean; });
}

void Nf4Weights::allocate_and_initialise(Device& device, DType model, const InitialValues& values) {
  if (empty()) return;
  model_ = model;
  allocate(device);
  const auto everything = [](std::int64_t, std::int64_t) { return true; };
  for (Weight& w : weights_) {
    const std::int64_t blocks = ops::nf4_blocks(w.parameter->local.numel());
    const Tensor scales =
        w.scales ? w.scales : device.empty({blocks}, DType::f32, Category::workspace, "scales to be quantised");
    values.by_blocks(*w.parameter, everything, [&](const Tensor& block, std::int64_t begin) {
      Tensor rounded = block;
      if (model != DType::f32) {
        rounded = device.empty(block.shape(), model, Category::workspace, "initial values in 16 bits");
        run(device, ops::Copy{block, rounded});
      }
      const std::int64_t first = begin - w.parameter->offset, n = block.numel();
      run(device, ops::QuantiseNf4{rounded, w.codes.part(first / 2, {ops::nf4_bytes(n)}),
                                   scales.part(first / ops::kNf4Block, {ops::nf4_blocks(n)})});
    });
    if (!w.scales) run(device, ops::QuantiseScales{scales, w.codes_of_scales, w.most, w.mean});
  }
}

Tensor Nf4Weights::scales_of(Device& device, const Weight& w) const {
  if (w.scales) return w.scales;
  const Tensor scales =
      device.empty(w.codes_of_scales.shape(), DType::f32, Category::weights, "scales of a weight in 4 bits");
  run(device, ops::DequantiseScales{w.codes_of_scales, w.most, w.mean, scales});
  return scales;
}

Tensor Nf4Weights::dequantised(Context& c, const Parameter& p) const {
  const Weight& w = weights_[static_cast<std::size_t>(p.nf4)];
  const Tensor scales = scales_of(c.device, w);
  const Tensor weight = c.device.empty(p.local, model_, Category::weights, "dequantised weight");
  run(c.device, ops::DequantiseNf4{w.codes, scales, weight});
  return weight;
}

}  // namespace mbench
