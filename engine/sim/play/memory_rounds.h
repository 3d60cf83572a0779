// Recognises that memory stands as it stood some micro batches before. On a pipeline's last stage the blocks of a micro batch soon lie
// where those of the one before lay. While the schedule repeats itself, so does the allocator. With several micro batches in flight best
// fit rarely comes back to the same places.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mbench::sim {

// `Free`: the free blocks of an allocator. If two have equal ones, and used blocks in the same places, the next requests change both alike.
template <class Free>
class MemoryRounds {
 public:
  struct Used {
    std::size_t maker = 0;
    int micro = 0;  // counted from the moment's
    std::size_t number = 0, place = 0, size = 0;
    bool operator==(const Used&) const = default;
  };
  struct Moment {
    std::size_t action = 0;  // that comes next, of that micro batch
    int micro = 0;
    std::size_t allocated = 0;  // bytes
    std::uint64_t retries = 0;  // of the allocator: a period with some is no period
    Free free{};
    std::vector<Used> used{};
  };

  // So many moments are kept. With n micro batches in flight blocks change places in turn, and memory repeats itself after n at the
  // earliest: with more than so many it is never found to.
  static constexpr int kMost = 64;

  // Whether so many bytes were allocated at an earlier moment: only then it is worth while to look at them.
  bool seen(std::size_t allocated) {
    if (moments_.size() >= static_cast<std::size_t>(kMost)) return false;
    return !sums_.insert(allocated).second;
  }
  // The last earlier moment that was like this one; null if there was none. Keeps this one.
  const Moment* find(Moment now) {
    const auto like = [&](const Moment& m) {
      return m.allocated == now.allocated && m.retries == now.retries && m.micro < now.micro && m.free == now.free &&
             m.used == now.used;
    };
    const auto found = std::find_if(moments_.rbegin(), moments_.rend(), like);
    if (found != moments_.rend()) return &*found;
    moments_.push_back(std::move(now));
    return nullptr;
  }

 private:
  std::unordered_set<std::size_t> sums_;
  std::vector<Moment> moments_;
};

}  // namespace mbench::sim
