#include "engine/device/allocator.h"

namespace mbench {

std::byte* Allocator::allocate(std::size_t bytes, Category category, std::string_view what) {
  const std::size_t size = Arena::rounded(bytes), offset = arena_.take(size, category, what);
  used_[offset] = {size, category};
  history_ = (history_ ^ (offset * 2 + 1)) * 0x9E3779B97F4A7C15u;
  std::byte* block = arena_.raw().base() + offset;
  if (observer_) observer_->allocated(block, size, category, what);
  return block;
}

void Allocator::release(std::byte* block) {
  if (observer_) observer_->released(block);
  const auto offset = static_cast<std::size_t>(block - arena_.raw().base());
  const auto it = used_.find(offset);
  check(it != used_.end(), "allocator", "release of a block that is not handed out");
  history_ = (history_ ^ (offset * 2)) * 0x9E3779B97F4A7C15u;
  arena_.give(offset, it->second.size, it->second.category);
  used_.erase(it);
}

}  // namespace mbench
