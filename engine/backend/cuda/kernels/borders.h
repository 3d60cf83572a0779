// Ranges of a flat tensor as the argument of a kernel. So one launch serves two kinds of tensors that alternate in one buffer: those with
// and without weight decay, or those that count and those that do not.
#pragma once
#include <algorithm>

#include "engine/backend/cuda/kernels/simt.h"
#include "engine/ops/ranges.h"

namespace mbench::cuda {

struct Borders {
  static constexpr int kMost = 240;  // 1.9 KB of the 4 KB that a kernel's arguments may have

  int count = 0;           // even
  std::int64_t at[kMost];  // begin, end, begin, end ... in increasing order

  // Whether element i lies in a range: an odd number of borders is at or before it.
  __device__ bool inside(std::int64_t i) const {
    int low = 0, high = count;  // borders before `low` are at or before i, those from `high` are not
    while (low < high) {
      const int middle = (low + high) / 2;
      if (at[middle] <= i)
        low = middle + 1;
      else
        high = middle;
    }
    return low % 2 == 1;
  }
};

// Whether vectors of `width` elements lie inside or outside as a whole.
inline bool whole_vectors(const Borders& borders, int width) {
  return std::all_of(borders.at, borders.at + borders.count, [&](std::int64_t x) { return x % width == 0; });
}

// Calls use(first element, elements, borders counted from there) for pieces of [0, n). Each piece has at most kMost borders.
template <class Use>
void for_pieces(ops::ElementRanges ranges, std::int64_t n, const Use& use) {
  std::int64_t begin = 0;
  do {
    Borders borders;
    const std::size_t taken = std::min<std::size_t>(ranges.size(), Borders::kMost / 2);
    // A piece ends at the next range: where a piece begins, vectors must fit as they do at a border.
    const std::int64_t end = taken < ranges.size() ? ranges[taken].begin : n;
    for (const ops::ElementRange& r : ranges.first(taken)) {
      borders.at[borders.count++] = r.begin - begin;
      borders.at[borders.count++] = r.end - begin;
    }
    use(begin, end - begin, borders);
    ranges = ranges.subspan(taken);
    begin = end;
  } while (!ranges.empty());
}

}  // namespace mbench::cuda
