#include "engine/nn/frozen_weights.h"

#include <algorithm>

#include "engine/nn/nf4_weights.h"
#include "engine/nn/parameters.h"
#include "engine/ops/copy.h"
#include "engine/ops/run.h"

namespace mbench {

FrozenWeights::FrozenWeights(Device& device, const Plan& plan, const Groups& groups)
    : device_(device),
      plan_(plan),
      groups_(groups),
      nf4_(std::make_unique<Nf4Weights>(plan.adapter.base)),
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
  nf4_->allocate_and_initialise(device_, plan_.precision.model, values);
  fp8_->allocate_frozen(device_, plan_, values);
  std::vector<StateLayout::Item> items;
  std::vector<Parameter*> flat;  // those in the model's type
  for (const auto& p : parameters_) {
    if (p->nf4 >= 0) continue;
    units_[static_cast<std::size_t>(p->unit)].push_back(p.get());
    if (p->fp8 >= 0) continue;
    p->index = flat.size();
    flat.push_back(p.get());
    items.push_back({p->local.numel(), p->reduce_over & kDataAxes, p->unit});
  }
  const auto bucket = static_cast<std::int64_t>(plan_.gradient_bucket_bytes / size_of(plan_.precision.gradients));
  layout_ = StateLayout(sharded() ? plan_.state : StatePlan(), items, {units, {}}, bucket, plan_.optimizer.alignment(),
                        [&](Axes data) {
                          const Group& group = groups_.over(data & kStateAxes);
                          return StateLayout::Peers{group.rank(), group.size()};
                        });
  buckets_.resize(layout_.buckets().size());
  weights_ = device_.empty({sharded() ? layout_.owned() : layout_.size()}, plan_.precision.model, Category::weights,
                           "frozen weights");
  run(device_, ops::Fill{weights_, 0});
  for (Parameter* p : flat) {
    p->offset = layout_.range(p->index).begin;
    for (const int b : sharded() ? layout_.buckets_of(p->unit) : std::vector<int>())
      if (const auto& range = layout_.buckets()[static_cast<std::size_t>(b)];
          p->offset >= range.begin && p->offset < range.end)
        bucket_of_.push_back(b);
    // What of the space is here: all of it, or this rank's part of the parameter's bucket.
    const StateLayout::Own here =
        sharded() ? layout_.own_of(bucket_of_.back()).front() : StateLayout::Own{{0, layout_.size()}, 0, 0};
    values.by_blocks(
        *p, [&](std::int64_t begin, std::int64_t end) { return here.begin < end && begin < here.end; },
        [&](const Tensor& block, std::int64_t begin) {
          const std::int64_t from = std::max(begin, here.begin), to = std::min(begin + block.numel(), here.end);
          run(device_, ops::Copy{block.part(from - begin, {to - from}),
                                 weights_.part(here.at + from - here.begin, {to - from})});
        });
  }
}

const Tensor FrozenWeights::own_of(int bucket) const {
  const StateLayout::Own& own = layout_.own_of(bucket).front();
  return weights_.part(own.at, {own.size()});
}

void FrozenWeights::fetch(int unit) {
  if (!sharded() || parameters_.empty()) return;
  for (const int b : layout_.buckets_of(unit)) {
    Bucket& mine = buckets_[static_cast<std::size_t>(b)];
    if (mine.weights) continue;
    const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
    const Tensor own = own_of(b);
    if (all.peers == 1) {
      mine.weights = own;
      continue;
    }
    mine.weights = device_.empty({all.size()}, own.dtype(), Category::weights, "gathered frozen weights of a unit");
    mine.arriving = groups_.over(all.sharers()).start(comm::AllGather{own, mine.weights});
  }
}

void FrozenWeights::begin_use(int unit) {
  const auto& mine = units_[static_cast<std::size_t>(unit)];
  if (mine.empty()) return;
  fetch(unit);
  if (sharded())
    for (const int b : layout_.buckets_of(unit))
      if (const auto arriving = std::move(buckets_[static_cast<std::size_t>(b)].arriving)) arriving->wait();
  for (Parameter* p : mine) {
    if (p->fp8 >= 0) {
      p->value = fp8_->codes_of(*p);
      continue;
    }
    if (!sharded()) {
      p->value = weights_.part(p->offset, p->local);
      continue;
    }
    const auto b = static_cast<std::size_t>(bucket_of_[p->index]);
    p->value = buckets_[b].weights.part(p->offset - layout_.buckets()[b].begin, p->local);
  }
}

void FrozenWeights::end_use(int unit) {
  for (Parameter* p : units_[static_cast<std::size_t>(unit)]) p->value.reset();
  if (!sharded() || parameters_.empty()) return;
  for (const int b : layout_.buckets_of(unit)) buckets_[static_cast<std::size_t>(b)].weights.reset();
}

}  // namespace mbench
