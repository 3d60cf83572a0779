#include "engine/nn/state/frozen_space.h"

#include <algorithm>

namespace mbench::nn {

std::size_t FrozenSpace::add(std::int64_t elements, Axes data, int unit) {
  items_.push_back({elements, data & kDataAxes, unit});
  return items_.size() - 1;
}

void FrozenSpace::allocate(int units, DType type, std::string_view what) {
  if (empty()) return;
  const auto bucket = static_cast<std::int64_t>(plan_.gradient_bucket_bytes / size_of(plan_.precision.gradients));
  layout_ = StateLayout(sharded() ? plan_.state : StatePlan(), items_, {units, {}}, bucket, plan_.optimizer.alignment(),
                        [&](Axes data) {
                          const comm::Group& group = groups_.over(data & kStateAxes);
                          return StateLayout::Peers{group.rank(), group.size()};
                        });
  buckets_.resize(layout_.buckets().size());
  own_ = device_.empty({sharded() ? layout_.owned() : layout_.size()}, type, Category::weights, what);
  if (!sharded()) return;
  for (std::size_t i = 0; i < items_.size(); ++i)
    for (const int b : layout_.buckets_of(items_[i].unit))
      if (const auto& range = layout_.buckets()[static_cast<std::size_t>(b)];
          layout_.range(i).begin >= range.begin && layout_.range(i).begin < range.end)
        bucket_of_.push_back(b);
}

FrozenSpace::Here FrozenSpace::here(std::size_t item, std::int64_t begin, std::int64_t end) const {
  const std::int64_t place = layout_.range(item).begin;
  const StateLayout::Own mine =
      sharded() ? layout_.own_of(bucket_of_[item]).front() : StateLayout::Own{{0, layout_.size()}, 0, 0};
  const std::int64_t from = std::max(place + begin, mine.begin), to = std::min(place + end, mine.end);
  if (from >= to) return {};
  return {from - place - begin, own_.part(mine.at + from - mine.begin, {to - from})};
}

void FrozenSpace::fetch(int unit) {
  if (!sharded() || empty()) return;
  for (const int b : layout_.buckets_of(unit)) {
    Bucket& mine = buckets_[static_cast<std::size_t>(b)];
    if (mine.values) continue;
    const StateLayout::Bucket& all = layout_.buckets()[static_cast<std::size_t>(b)];
    const StateLayout::Own& part = layout_.own_of(b).front();
    const Tensor own = own_.part(part.at, {part.size()});
    if (all.peers == 1) {
      mine.values = own;
      continue;
    }
    mine.values = device_.empty({all.size()}, own.dtype(), Category::weights, "gathered frozen weights of a unit");
    mine.arriving = groups_.over(all.sharers()).start(comm::AllGather{own, mine.values});
  }
}

void FrozenSpace::begin_use(int unit) {
  if (!sharded() || empty()) return;
  fetch(unit);
  for (const int b : layout_.buckets_of(unit))
    if (const auto arriving = std::move(buckets_[static_cast<std::size_t>(b)].arriving)) arriving->wait();
}

void FrozenSpace::end_use(int unit) {
  if (!sharded() || empty()) return;
  for (const int b : layout_.buckets_of(unit)) buckets_[static_cast<std::size_t>(b)].values.reset();
}

Tensor FrozenSpace::of(std::size_t item, const Shape& shape) const {
  const std::int64_t place = layout_.range(item).begin;
  if (!sharded()) return own_.part(place, shape);
  const auto b = static_cast<std::size_t>(bucket_of_[item]);
  return buckets_[b].values.part(place - layout_.buckets()[b].begin, shape);
}

}  // namespace mbench::nn
