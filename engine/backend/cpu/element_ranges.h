// The parts of a tile inside ranges of elements, and the parts between them.
#pragma once
#include <algorithm>

#include "engine/ops/ranges.h"

namespace mbench::cpu {

// f(from, to, inside) for consecutive parts of a tile of n elements that begins at element `begin`; `from` and `to` count from `begin`. A
// part may be empty.
template <class F>
void for_parts(ops::ElementRanges ranges, std::int64_t begin, std::int64_t n, F&& f) {
  std::int64_t done = 0;
  auto r = std::partition_point(ranges.begin(), ranges.end(),
                                [&](const ops::ElementRange& range) { return range.end <= begin; });
  for (; r != ranges.end() && r->begin < begin + n; ++r) {
    const std::int64_t from = std::max<std::int64_t>(r->begin - begin, 0), to = std::min(r->end - begin, n);
    f(done, from, false);
    f(from, to, true);
    done = to;
  }
  f(done, n, false);
}

}  // namespace mbench::cpu
