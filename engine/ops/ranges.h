// Some of the elements of a flat tensor: ranges in order that do not touch one another.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mbench::ops {

struct ElementRange {
  std::int64_t begin = 0, end = 0;
};
using ElementRanges = std::span<const ElementRange>;

inline std::int64_t elements_of(ElementRanges ranges) {
  std::int64_t n = 0;
  for (const ElementRange& r : ranges) n += r.end - r.begin;
  return n;
}

// The parts of `ranges` within [begin, end), counted from `begin`.
inline std::vector<ElementRange> ranges_within(ElementRanges ranges, std::int64_t begin, std::int64_t end) {
  std::vector<ElementRange> within;
  const auto first =
      std::partition_point(ranges.begin(), ranges.end(), [&](const ElementRange& r) { return r.end <= begin; });
  for (auto r = first; r != ranges.end() && r->begin < end; ++r)
    within.push_back({std::max(r->begin, begin) - begin, std::min(r->end, end) - begin});
  return within;
}

// Throws an internal error naming the op and the argument unless they are ranges of [0, n).
inline void need_ranges(std::string_view op, std::string_view argument, ElementRanges ranges, std::int64_t n) {
  std::int64_t free = 0;  // the first element that the next range may have
  for (const ElementRange& r : ranges) {
    check(r.begin >= free && r.begin < r.end && r.end <= n, op, "{}, got [{}, {}), need a range within [{}, {})",
          argument, r.begin, r.end, free, n);
    free = r.end + 1;
  }
}

}  // namespace mbench::ops
