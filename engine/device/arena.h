// The policy of the allocator (engine/device/allocator.h) without addresses. It decides which bytes of the arena a
// block gets and when the arena grows. It counts what is in use, now and at most. What only counts memory needs no more
// than this.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/category.h"
#include "engine/base/error.h"
#include "engine/device/free_blocks.h"

namespace mbench {

// Bytes handed out, in all and by category.
struct MemoryUse {
  std::size_t total = 0;
  std::array<std::size_t, kCategories> by_category{};
};

// Where raw memory comes from. Addresses [base, base + committed) may be used.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual std::byte* base() const = 0;
  // Makes the first `bytes` (a multiple of granule) usable; false if the device has no more.
  virtual bool commit(std::size_t bytes) = 0;
  virtual std::size_t granule() const = 0;
  // What bounds it, for a message.
  virtual std::string bound() const { return "what the device has"; }
};

// An allocation that did not fit: what was asked for, in which category, and how full the device was.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

class Arena {
 public:
  // `limit`: bytes the device may hold; 0: as many as the raw memory has.
  Arena(std::unique_ptr<RawMemory> raw, std::size_t limit) : raw_(std::move(raw)), limit_(limit) {}

  static constexpr std::size_t kRounding = 512;
  // The bytes that a block of `bytes` takes.
  static std::size_t rounded(std::size_t bytes) {
    return std::max<std::size_t>(1, (bytes + kRounding - 1) / kRounding) * kRounding;
  }
  // The offset of a block of a rounded size. Throws OutOfMemory, which names `what`.
  std::size_t take(std::size_t size, Category category, std::string_view what) {
    std::size_t offset = free_.take(size);
    if (offset == FreeBlocks::kNone) {
      grow(size, category, what);
      offset = free_.take(size);
    }
    count_taken(size, category);
    return offset;
  }
  void give(std::size_t offset, std::size_t size, Category category) {
    count_given(size, category);
    free_.give(offset, size);
  }
  // Of a block that has no place.
  void count_taken(std::size_t size, Category category) {
    use_.total += size;
    use_.by_category[static_cast<std::size_t>(category)] += size;
    if (use_.total > peak_.total) peak_ = use_;
  }
  void count_given(std::size_t size, Category category) {
    use_.total -= size;
    use_.by_category[static_cast<std::size_t>(category)] -= size;
  }

  const MemoryUse& in_use() const { return use_; }
  const MemoryUse& peak() const { return peak_; }  // at the moment of the highest total
  std::size_t reserved() const { return committed_; }
  std::uint64_t raw_allocations() const { return raw_allocations_; }
  void reset_peak() { peak_ = use_; }
  void reset_library_peak() { library_peak_ = library_; }
  // Memory held outside the arena: see Allocator.
  void change_library(std::size_t before, std::size_t after, std::string_view what);
  std::size_t library() const { return library_; }
  std::size_t library_peak() const { return library_peak_; }
  RawMemory& raw() { return *raw_; }
  const FreeBlocks& free() const { return free_; }

 private:
  [[noreturn]] void fail_full(std::string_view what, std::string_view category, std::size_t need) const;
  // Grows the arena so that a block of `size` bytes is free at its end.
  void grow(std::size_t size, Category category, std::string_view what);

  std::unique_ptr<RawMemory> raw_;
  std::size_t limit_;
  std::size_t committed_ = 0;
  std::size_t library_ = 0, library_peak_ = 0;
  std::uint64_t raw_allocations_ = 0;
  MemoryUse use_, peak_;
  FreeBlocks free_;
};

}  // namespace mbench
