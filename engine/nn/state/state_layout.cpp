#include "engine/nn/state/state_layout.h"

#include <algorithm>

#include "engine/base/error.h"

namespace mbench::nn {
namespace {

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace

StateLayout::StateLayout(const StatePlan& plan, const std::vector<Item>& items, const Units& units,
                         std::int64_t bucket_elements, std::int64_t alignment, const PeersOver& peers)
    : alignment_(alignment),
      ranges_(items.size()),
      runs_(static_cast<std::size_t>(units.count)),
      by_unit_(static_cast<std::size_t>(units.count)) {
  std::vector<std::size_t> kinds[2];
  for (std::size_t i = 0; i < items.size(); ++i) kinds[items[i].fp8 ? 1 : 0].push_back(i);
  for (const std::vector<std::size_t>& all : kinds) {
    const std::int64_t begin = size_;
    if (plan.sharded()) {
      for (const Items mine : grouped(plan, items, units, bucket_elements, all))
        add_bucket(plan, items, mine, peers(items[mine.front()].data));
    } else {
      for (const std::size_t i : all) {
        ranges_[i] = {size_, size_ + round_up(items[i].elements, alignment_)};
        size_ = ranges_[i].end;
      }
      if (size_ > begin) own_.push_back({{begin, size_}, 0, begin});
      owned_ = size_;
    }
    find_runs(items, all);
    if (&all == &kinds[0]) fp8_begin_ = size_, fp8_at_ = owned_;
  }
  // By whole parameters the ranks own unequal parts: each makes room for the largest.
  for (const auto& [of, given] : given_) {
    const std::int64_t most = *std::max_element(given.begin(), given.end());
    owned_ += most - given[static_cast<std::size_t>(peers(of.first).rank)];
  }
  if (kinds[1].empty()) fp8_at_ = owned_;
}

// From the last item to the first, as backward fills them.
std::vector<StateLayout::Items> StateLayout::grouped(const StatePlan& plan, const std::vector<Item>& items,
                                                     const Units& units, std::int64_t bucket_elements,
                                                     Items all) const {
  std::vector<Items> groups;
  std::int64_t elements = 0;
  std::size_t last = all.size();
  const bool apart_of_fp8 = !all.empty() && all.size() < items.size() && !items[all.front()].fp8;
  const auto crosses_chunks = [&](int before, int after) {
    return std::any_of(units.chunk_starts.begin(), units.chunk_starts.end(),
                       [&](int start) { return before < start && start <= after; });
  };
  for (std::size_t i = all.size(); i-- > 0;) {
    const Item& item = items[all[i]];
    if (i + 1 < all.size()) {
      const Item& next = items[all[i + 1]];
      const bool another_unit = next.unit != item.unit;
      // A unit's gradients become ready at once: a bucket is not closed within one.
      // Beside weights in FP8 alone what is left of layers fills none for long, and does not wait for a table that fills one by itself.
      const bool table_next = apart_of_fp8 && item.elements >= bucket_elements;
      const bool full = another_unit && (plan.weights.sharded() || elements >= bucket_elements || table_next);
      if (full || item.separate || next.separate || item.data != next.data ||
          (another_unit && crosses_chunks(item.unit, next.unit))) {
        groups.push_back(all.subspan(i + 1, last - i - 1));
        last = i + 1;
        elements = 0;
      }
    }
    elements += item.elements;
  }
  if (last > 0) groups.push_back(all.first(last));
  std::reverse(groups.begin(), groups.end());
  return groups;
}

void StateLayout::add_bucket(const StatePlan& plan, const std::vector<Item>& items, Items mine, Peers peers) {
  const int index = static_cast<int>(buckets_.size());
  Bucket bucket{{size_, size_}, items[mine.front()].data, peers.size, {}, {}};
  for (const std::size_t i : mine) {
    ranges_[i] = {size_, size_ + round_up(items[i].elements, alignment_)};
    size_ = ranges_[i].end;
    if (const int unit = items[i].unit; bucket.units.empty() || bucket.units.back() != unit) {
      bucket.units.push_back(unit);
      by_unit_[static_cast<std::size_t>(unit)].push_back(index);
    }
  }
  if (plan.cut == StatePlan::Cut::even) {
    bucket.end = size_ = bucket.begin + round_up(size_ - bucket.begin, alignment_ * peers.size);
    ranges_[mine.back()].end = size_;
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

void StateLayout::give_to_owners(Bucket& bucket, const std::vector<Item>& items, Items mine, Peers peers) {
  for (const std::size_t i : mine) {
    std::vector<std::int64_t>& given = given_[{bucket.data, items[i].kind}];
    given.resize(static_cast<std::size_t>(peers.size));
    // What another stage has too is owned by the same peer there.
    const auto least = items[i].separate ? given.begin() : std::min_element(given.begin(), given.end());
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

void StateLayout::find_runs(const std::vector<Item>& items, Items all) {
  for (const std::size_t i : all) {
    std::vector<Run>& runs = runs_[static_cast<std::size_t>(items[i].unit)];
    if (!runs.empty() && runs.back().data == items[i].data && runs.back().end == ranges_[i].begin)
      runs.back().end = ranges_[i].end;
    else
      runs.push_back({ranges_[i], items[i].data});
  }
}

}  // namespace mbench::nn
