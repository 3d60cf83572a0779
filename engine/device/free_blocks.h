// The free blocks of an arena: best fit, the lowest of those of one size, neighbours merged. A few dozen to a few
// hundred of them, in two arrays: a scan over sizes is faster than the nodes of a tree.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace mbench {

class FreeBlocks {
 public:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  // The offset of `size` bytes, taken from the smallest block that holds them; kNone if there is none.
  std::size_t take(std::size_t size) {
    const std::size_t n = sizes_.size();
    const std::size_t* sizes = sizes_.data();
    std::size_t best = kNone;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t fit = sizes[i] >= size ? sizes[i] : kNone;
      best = fit < best ? fit : best;
    }
    if (best == kNone) return kNone;
    std::size_t i = 0;
    while (sizes[i] != best) ++i;
    const std::size_t offset = offsets_[i];
    if (best == size) {
      erase(i);
    } else {
      offsets_[i] += size;
      sizes_[i] -= size;
    }
    return offset;
  }

  void give(std::size_t offset, std::size_t size) {
    const std::size_t i = after(offset), n = sizes_.size();
    const bool joins_next = i < n && offset + size == offsets_[i];
    const bool joins_previous = i > 0 && offsets_[i - 1] + sizes_[i - 1] == offset;
    if (joins_previous) {
      sizes_[i - 1] += size;
      if (!joins_next) return;
      sizes_[i - 1] += sizes_[i];
      erase(i);
    } else if (joins_next) {
      offsets_[i] = offset;
      sizes_[i] += size;
    } else {
      offsets_.insert(offsets_.begin() + static_cast<std::ptrdiff_t>(i), offset);
      sizes_.insert(sizes_.begin() + static_cast<std::ptrdiff_t>(i), size);
    }
  }

  // Where the block begins that ends at `end`; `end` itself if there is none.
  std::size_t begin_of_last(std::size_t end) const {
    if (offsets_.empty() || offsets_.back() + sizes_.back() != end) return end;
    return offsets_.back();
  }

 private:
  // The index of the first block beyond `offset`.
  std::size_t after(std::size_t offset) const {
    return static_cast<std::size_t>(std::lower_bound(offsets_.begin(), offsets_.end(), offset) -
                                    offsets_.begin());
  }
  void erase(std::size_t i) {
    offsets_.erase(offsets_.begin() + static_cast<std::ptrdiff_t>(i));
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  std::vector<std::size_t> offsets_, sizes_;  // by offset
};

}  // namespace mbench
