// Ranges of elements, for the ops that take some of a tensor's elements. They begin at the borders of vectors or not, and some are more
// than one launch holds.
#pragma once
#include <string>
#include <vector>

#include "engine/ops/ranges.h"

namespace mbench::test {

struct RangeSet {
  std::string name;
  std::vector<ops::ElementRange> list;
  std::int64_t length;  // of a tensor that has them
};

inline bool is_within(ops::ElementRanges ranges, std::int64_t i) {
  for (const ops::ElementRange& r : ranges)
    if (i >= r.begin && i < r.end) return true;
  return false;
}

// `count` ranges of a length each with gaps as long between them, from element `first` on.
inline RangeSet every_other(std::int64_t first, std::int64_t length, std::int64_t count) {
  RangeSet set{std::to_string(count) + " ranges of " + std::to_string(length), {}, 0};
  for (std::int64_t i = 0; i < count; ++i) set.list.push_back({first + 2 * i * length, first + (2 * i + 1) * length});
  set.length = set.list.back().end + 13;
  return set;
}

// An op keeps a view of its ranges: refer to these, do not copy them.
inline const std::vector<RangeSet> kRangeSets = {
    every_other(0, 8, 3),
    every_other(64, 64, 5),
    every_other(3, 5, 4),
    every_other(0, 8, 120),
    every_other(8, 8, 121),
    every_other(1, 3, 300),
    {"ranges of any length", {{0, 3}, {64, 1027}, {1030, 1031}, {2040, 2060}, {8192, 20000}, {29999, 30000}}, 30000}};

}  // namespace mbench::test
