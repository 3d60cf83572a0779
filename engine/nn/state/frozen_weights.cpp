#include "engine/nn/state/frozen_weights.h"

#include "engine/nn/state/nf4_weights.h"
#include "engine/nn/state/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench::nn {

FrozenWeights::FrozenWeights(Device& device, const Plan& plan, const Groups& groups)
    : device_(device),
      plan_(plan),
      space_(device, plan, groups),
      fp8_codes_(device, plan, groups),
      nf4_(std::make_unique<Nf4Weights>(device, plan, groups)),
      fp8_(std::make_unique<Fp8Parameters>()) {}
FrozenWeights::~FrozenWeights() = default;

Parameter* FrozenWeights::add(std::unique_ptr<Parameter> parameter) {
  parameter->index = parameters_.size();
  parameters_.push_back(std::move(parameter));
  return parameters_.back().get();
}

void FrozenWeights::keep_in_nf4(Parameter& parameter) {
  nf4_->add(parameter);
}

void FrozenWeights::keep_in_fp8(Parameter& parameter) {
  fp8_->add(parameter, 0);
}

void FrozenWeights::allocate_and_initialise(int units, const InitialValues& values) {
  units_.resize(static_cast<std::size_t>(units));
  if (parameters_.empty()) return;
  for (const auto& p : parameters_) {
    if (p->nf4 >= 0) continue;
    FrozenSpace& space = p->fp8 >= 0 ? fp8_codes_ : space_;
    units_[static_cast<std::size_t>(p->unit)].push_back(
        {p.get(), space.add(p->local.numel(), p->reduce_over & kDataAxes, p->unit)});
  }
  nf4_->allocate_and_initialise(units, values);
  fp8_codes_.allocate(units, DType::e4m3, "frozen weights in FP8");
  space_.allocate(units, plan_.precision.model, "frozen weights");
  if (!space_.empty()) run(device_, ops::Fill{space_.own(), 0});
  std::vector<Fp8Parameters::Frozen> in_fp8;
  for (const auto& unit : units_)
    for (const auto& [p, item] : unit)
      if (p->fp8 >= 0)
        in_fp8.push_back({p, item});
      else
        initialise(*p, item, values);
  fp8_->initialise_frozen(device_, plan_, values, fp8_codes_, in_fp8);
}

void FrozenWeights::initialise(const Parameter& p, std::size_t item, const InitialValues& values) {
  const auto here = [&](std::int64_t begin, std::int64_t end) {
    return space_.here(item, begin - p.offset, end - p.offset);
  };
  values.by_blocks(
      p, [&](std::int64_t begin, std::int64_t end) { return static_cast<bool>(here(begin, end).values); },
      [&](const Tensor& block, std::int64_t begin) {
        const FrozenSpace::Here own = here(begin, begin + block.numel());
        run(device_, ops::Copy{block.part(own.first, own.values.shape()), own.values});
      });
}

void FrozenWeights::fetch(int unit) {
  for (FrozenSpace* space : {&space_, &nf4_->codes(), &fp8_codes_}) space->fetch(unit);
}

void FrozenWeights::begin_use(int unit) {
  for (FrozenSpace* space : {&space_, &nf4_->codes(), &fp8_codes_}) space->begin_use(unit);
  for (const auto& [p, item] : units_[static_cast<std::size_t>(unit)])
    p->value = (p->fp8 >= 0 ? fp8_codes_ : space_).of(item, p->local);
}

void FrozenWeights::end_use(int unit) {
  for (const auto& [p, item] : units_[static_cast<std::size_t>(unit)]) p->value.reset();
  for (FrozenSpace* space : {&space_, &nf4_->codes(), &fp8_codes_}) space->end_use(unit);
}

}  // namespace mbench::nn
