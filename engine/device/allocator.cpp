#include "engine/device/allocator.h"

#include <algorithm>

#include "engine/base/text.h"

namespace mbench {

Allocator::Allocator(std::unique_ptr<RawMemory> raw, std::size_t limit)
    : raw_(std::move(raw)), limit_(limit) {}

void Allocator::add_free(std::size_t offset, std::size_t size) {
  free_[offset] = size;
  by_size_.insert({size, offset});
}

void Allocator::remove_free(std::size_t offset, std::size_t size) {
  free_.erase(offset);
  by_size_.erase({size, offset});
}

void Allocator::fail_full(std::string_view what, std::string_view category, std::size_t need) const {
  std::string full =
      fmt::format("out of memory at {} ({}), need {}, got {} in use and {} reserved of {}", what, category,
                  format_bytes(need), format_bytes(use_.total), format_bytes(committed_),
                  limit_ ? "the limit of " + format_bytes(limit_) : std::string("what the device has"));
  if (library_ > 0) full += fmt::format(", {} of it held outside the arena", format_bytes(library_));
  throw OutOfMemory(ErrorKind::out_of_memory, "memory", full);
}

void Allocator::change_library(std::size_t before, std::size_t after, std::string_view what) {
  const std::size_t all = library_ - before + after;
  if (after > before && limit_ != 0 && committed_ + all > limit_) fail_full(what, "library", after);
  library_ = all;
  library_peak_ = std::max(library_peak_, library_);
}

std::byte* Allocator::allocate(std::size_t bytes, Category category, std::string_view what) {
  const std::size_t size = std::max<std::size_t>(1, (bytes + kRounding - 1) / kRounding) * kRounding;
  auto fit = by_size_.lower_bound({size, 0});
  if (fit == by_size_.end()) {
    // Grow: a free block at the top of the arena is extended rather than passed over.
    const bool top_free = !free_.empty() && free_.rbegin()->first + free_.rbegin()->second == committed_;
    const std::size_t start = top_free ? free_.rbegin()->first : committed_;
    const std::size_t granule = raw_->granule();
    const std::size_t target = (start + size + granule - 1) / granule * granule;
    if ((limit_ != 0 && target + library_ > limit_) || !raw_->commit(target))
      fail_full(what, name_of(category), size);
    ++raw_allocations_;
    if (top_free) remove_free(start, committed_ - start);
    add_free(start, target - start);
    committed_ = target;
    fit = by_size_.find({target - start, start});
  }
  const auto [found_size, offset] = *fit;
  remove_free(offset, found_size);
  if (found_size > size) add_free(offset + size, found_size - size);
  used_[offset] = {size, category};
  use_.total += size;
  use_.by_category[static_cast<int>(category)] += size;
  if (use_.total > peak_.total) peak_ = use_;
  return raw_->base() + offset;
}

void Allocator::release(std::byte* block) {
  std::size_t offset = static_cast<std::size_t>(block - raw_->base());
  const auto it = used_.find(offset);
  check(it != used_.end(), "allocator", "release of a block that is not handed out");
  auto [size, category] = it->second;
  used_.erase(it);
  use_.total -= size;
  use_.by_category[static_cast<int>(category)] -= size;

  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    const std::size_t next_size = next->second;
    remove_free(offset + size, next_size);
    size += next_size;
  }
  auto previous = free_.lower_bound(offset);
  if (previous != free_.begin()) {
    --previous;
    if (previous->first + previous->second == offset) {
      const auto [start, length] = *previous;
      remove_free(start, length);
      offset = start;
      size += length;
    }
  }
  add_free(offset, size);
}

}  // namespace mbench
