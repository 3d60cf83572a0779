#include "engine/device/arena.h"

#include "engine/base/text.h"

namespace mbench {

void Arena::fail_full(std::string_view what, std::string_view category, std::size_t need) const {
  std::string full = fmt::format("out of memory at {} ({}), need {}, got {} in use and {} reserved of {}", what,
                                 category, format_bytes(need), format_bytes(use_.total), format_bytes(committed_),
                                 limit_ ? "the limit of " + format_bytes(limit_) : raw_->bound());
  if (library_ > 0) full += fmt::format(", {} of it held outside the arena", format_bytes(library_));
  throw OutOfMemory(ErrorKind::out_of_memory, "memory", full);
}

void Arena::change_library(std::size_t before, std::size_t after, std::string_view what) {
  const std::size_t all = library_ - before + after;
  if (after > before && limit_ != 0 && committed_ + all > limit_) fail_full(what, "library", after);
  library_ = all;
  library_peak_ = std::max(library_peak_, library_);
}

void Arena::grow(std::size_t size, Category category, std::string_view what) {
  // A free block at the top of the arena is extended rather than passed over.
  const std::size_t start = free_.begin_of_last(committed_);
  const std::size_t granule = raw_->granule();
  const std::size_t target = (start + size + granule - 1) / granule * granule;
  if ((limit_ != 0 && target + library_ > limit_) || !raw_->commit(target)) fail_full(what, name_of(category), size);
  ++raw_allocations_;
  free_.give(committed_, target - committed_);
  committed_ = target;
}

}  // namespace mbench
