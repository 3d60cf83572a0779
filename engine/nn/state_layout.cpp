#include "engine/nn/state_layout.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace

StateLayout::StateLayout(const StatePlan& plan, const std::vector<Item>& items, const Units& units,
                         std::int64_t bucket_elements, std::int64_t alignment, const PeersOver& peers)
    : alignment_(alignment), ranges_(items.size()), by_unit_(static_cast<std::size_t>(units.count)) {
  if (plan.sharded()) {
    for (const Items& mine : grouped(plan, items, units, bucket_elements))
      add_bucket(plan, items, mine, peers(items[mine.first].data));
    // By whole parameters the ranks own unequal parts: each makes room for the largest.
    for (const auto& [axes, given] : given_) {
      const std::int64_t most = *std::max_element(given.begin(), given.end());
      owned_ += most - given[static_cast<std::size_t>(peers(axes).rank)];
    }
  } else {
    for (std::size_t i = 0; i < items.size(); ++i) {
      ranges_[i] = {size_, size_ + round_up(items[i].elements, alignment_)};
      size_ = ranges_[i].end;
    }
    own_.push_back({{0, size_}, 0, 0});
    owned_ = size_;
  }
  find_runs(items, units.count);
}

// From the last item to the first, as backward fills them.
std::vector<StateLayout::Items> StateLayout::grouped(const StatePlan& plan, const std::vector<Item>& items,
                                                     const Units& units, std::int64_t bucket_elements) const {
  std::vector<Items> groups;
  std::int64_t elements = 0;
  const auto crosses_chunks = [&](int before, int after) {
    return std::any_of(units.chunk_starts.begin(), units.chunk_starts.end(),
                       [&](int start) { return before < start && start <= after; });
  };
  for (std::size_t i = items.size(); i-- > 0;) {
    const Item& item = items[i];
    bool starts = i + 1 == items.size();
    if (!starts) {
      const Item& next = items[i + 1];
      const bool another_unit = next.unit != item.unit;
      // A unit's gradients become ready at once: a bucket is not closed within one.
      const bool full = another_unit && (plan.weights.sharded() || elements >= bucket_elements);
      starts = full || item.apart || next.apart || item.data != next.data ||
               (another_unit && crosses_chunks(item.unit, next.unit));
    }
    if (starts) {
      groups.push_back({i, i + 1});
      elements = 0;
    }
    groups.back().first = i;
    elements += item.elements;
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

void StateLayout::add_bucket(const StatePlan& plan, const std::vector<Item>& items, const Items& mine,
                             Peers peers) {
  const int index = static_cast<int>(buckets_.size());
  Bucket bucket{{size_, size_}, items[mine.first].data, peers.size, {}, {}};
  for (std::size_t i = mine.first; i < mine.last; ++i) {
    ranges_[i] = {size_, size_ + round_up(items[i].elements, alignment_)};
    size_ = ranges_[i].end;
    if (const int unit = items[i].unit; bucket.units.empty() || bucket.units.back() != unit) {
      bucket.units.push_back(unit);
      by_unit_[static_cast<std::size_t>(unit)].push_back(index);
    }
  }
  if (plan.cut == StatePlan::Cut::even) {
    bucket.end = size_ = bucket.begin + round_up(size_ - bucket.begin, alignment_ * peers.size);
    ranges_[mine.last - 1].end = size_;
    const std::int64_t part = bucket.size() / peers.size, begin = bucket.begin + peers.rank * part;
    own_.push_back({{begin, begin + part}, index, owned_});
    owned_ += part;
  } else {
    bucket.end = size_;
    if (plan.cut == StatePlan::Cut::first)
      bucket.parts.push_back({bucket, 0});
    else
      give_to_owners(bucket, items, mine, peers);
    for (const Part& part : bucket.parts) {
      if (part.owner != peers.rank) continue;
      own_.push_back({part, index, owned_});
      owned_ += part.size();
    }
  }
  buckets_.push_back(std::move(bucket));
}

void StateLayout::give_to_owners(Bucket& bucket, const std::vector<Item>& items, const Items& mine,
                                 Peers peers) {
  std::vector<std::int64_t>& given = given_[bucket.data];
  given.resize(static_cast<std::size_t>(peers.size));
  for (std::size_t i = mine.first; i < mine.last; ++i) {
    // What another stage has too is owned by the same peer there.
    const auto least = items[i].apart ? given.begin() : std::min_element(given.begin(), given.end());
    *least += ranges_[i].size();
    const int owner = static_cast<int>(least - given.begin());
    if (!bucket.parts.empty() && bucket.parts.back().owner == owner)
      bucket.parts.back().end = ranges_[i].end;
    else
      bucket.parts.push_back({ranges_[i], owner});
  }
}

std::span<const StateLayout::Own> StateLayout::own_of(int bucket) const {
  const auto [first, last] = std::ranges::equal_range(own_, bucket, {}, &Own::bucket);
  return {first, last};
}

void StateLayout::find_runs(const std::vector<Item>& items, int units) {
  runs_.resize(static_cast<std::size_t>(units));
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::vector<Run>& runs = runs_[static_cast<std::size_t>(items[i].unit)];
    if (!runs.empty() && runs.back().data == items[i].data)
      runs.back().end = ranges_[i].end;
    else
      runs.push_back({ranges_[i], items[i].data});
  }
}

}  // namespace mbench
