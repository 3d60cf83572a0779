#include "engine/device/allocator.h"

#include <algorithm>

namespace mbench {

std::byte* Allocator::allocate(std::size_t bytes, Category category, std::string_view what) {
  const std::size_t size = Arena::rounded(bytes);
  std::size_t offset = next_;
  if (places_) {
    offset = arena_.take(size, category, what);
    used_[offset] = {size, category};
  } else {
    arena_.count_taken(size, category);
    unplaced_.push_back({offset, {size, category}});
    next_ += size;
  }
  history_ = (history_ ^ (offset * 2 + 1)) * 0x9E3779B97F4A7C15u;
  std::byte* block = arena_.raw().base() + offset;
  if (observer_) observer_->allocated(block, size, category, what);
  return block;
}

void Allocator::release(std::byte* block) {
  if (observer_) observer_->released(block);
  const auto offset = static_cast<std::size_t>(block - arena_.raw().base());
  history_ = (history_ ^ (offset * 2)) * 0x9E3779B97F4A7C15u;
  if (!places_) {
    const auto it = std::lower_bound(unplaced_.begin(), unplaced_.end(), offset,
                                     [](const Unplaced& u, std::size_t offset) { return u.offset < offset; });
    check(it != unplaced_.end() && it->offset == offset, "allocator", "release of a block that was never handed out");
    return arena_.count_given(it->block.size, it->block.category);
  }
  const auto it = used_.find(offset);
  check(it != used_.end(), "allocator", "release of a block that is not handed out");
  arena_.give(offset, it->second.size, it->second.category);
  used_.erase(it);
}

}  // namespace mbench
